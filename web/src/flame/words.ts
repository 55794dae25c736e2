// What is said of a profile and its frames.

import type { ProfiledFunction } from "../data";
import { bytes, micros, times } from "../format";
import { changeOf, type Change, type Sampled } from "./change";
import { packageOf, type Groups } from "./groups";
import type { Stacks } from "./stacks";
import type { Tree } from "./tree";

/** One profile, ready to be merged. */
export interface Subject extends Sampled {
  cell: string; // its name
  unit: "ns" | "B";
  stacks: Stacks;
}

/** What the two profiles of a comparison are called. */
export interface Labels {
  of: string;
  against: string;
}

/** What is said of frames. */
export class Words {
  constructor(
    private readonly tree: Tree,
    private readonly of: Subject,
    private readonly against: Subject | undefined,
    private readonly labels: Labels,
    private readonly functions: ProfiledFunction[],
    private readonly groups: Groups,
    private readonly from: "outermost" | "innermost",
  ) {}

  changeOf(frame: number): Change | null {
    return this.against ? changeOf(this.tree.now(frame), this.tree.before(frame), this.of, this.against) : null;
  }

  name(frame: number): string {
    const of = this.tree.functions[frame]!;
    if (of < 0) return "all";
    const { name, in: where } = this.functions[of]!;
    return where ? `${name} (${where})` : name;
  }

  package(frame: number): string {
    const of = this.tree.functions[frame]!;
    return of < 0 ? "" : packageOf(this.functions[of]!);
  }

  amount(value: number): string { return this.of.unit === "ns" ? micros(value / 1000) : bytes(value); }
  value(value: number): string { return `${this.amount(value)} per call`; }

  /** A frame's share and value. */
  sizeOf(frame: number): string {
    return `${share(this.tree.now(frame) / this.tree.total)} · ${this.value(this.tree.now(frame))}`;
  }

  /** What a frame has that none beneath it has. */
  self(frame: number): string {
    const text = `${share(this.tree.self(frame) / this.tree.total)}, ${this.value(this.tree.self(frame))}`;
    return this.from === "outermost" ? `${text} by itself` : `${text} in stacks that begin here`;
  }

  change(frame: number): string {
    const change = this.changeOf(frame);
    return change ? `against ${this.labels.against} ${this.difference(change)}` : "";
  }

  /** A difference with its sign, and as a ratio. */
  difference({ now, before, ratio, same, sure }: Change): string {
    if (same) return "the same";
    const signed = `${now < before ? "−" : "+"}${this.amount(Math.abs(now - before))}`;
    const text = before === 0 ? `${signed}, new` : now === 0 ? `${signed}, gone` : `${signed}, ${times(ratio)}`;
    return sure ? text : `${text}, which may be chance`;
  }

  line(frame: number): string {
    return [this.name(frame), this.sizeOf(frame), this.change(frame)].filter(Boolean).join(" · ");
  }

  /** The categories of a frame's stacks, with their shares of it. */
  categories(frame: number): string {
    if (this.groups.by !== "category") return "";
    const now = this.tree.now(frame);
    const shares = this.groups.names.map((name, category) => ({ name, of: this.tree.ofCategory(frame, category) / now }));
    const there = shares.filter(({ of }) => of > 0).sort((a, b) => b.of - a.of);
    return there.length === 1 ? there[0]!.name : there.map(({ name, of }) => `${name} ${share(of)}`).join(", ");
  }

  summary(): string {
    const against = this.against;
    const estimated = ({ samples }: Sampled) => (samples > 0 ? `${samples.toLocaleString("en")} samples` : "counted");
    if (!against) return `${this.value(this.of.per_call)}, ${this.of.samples > 0 ? "estimated from " : ""}${estimated(this.of)}.`;
    return `${this.labels.of} ${this.value(this.of.per_call)}, ${estimated(this.of)}; ${this.labels.against} ${this.amount(against.per_call)}, ${estimated(against)}.`;
  }
}

/** One decimal, and of what is small two digits. */
export function share(value: number): string {
  const percents = 100 * value;
  return `${percents >= 0.95 || percents === 0 ? percents.toFixed(1) : Number(percents.toPrecision(2))} %`;
}
