// Two insights beside each other. This file computes the same figures as analysis.Explain,
// since a page cannot hold them for every pair.

import type { Breakdown, Count, Insight } from "../data";
import { standardErrors } from "../flame/change";

/** A figure of both; with one cell alone, a is 0. */
export interface Change {
  name: string;
  a: number;
  b: number;
  error?: number; // one standard error of the difference; undefined where it is not known
}

/** A whole and its parts, the largest difference first. */
export interface Explained {
  whole: Change;
  parts: Change[];
  rest: Change | null; // what the parts lack of the whole; null where they lack nothing
}

export const difference = ({ a, b }: Change) => b - a;

/** Whether a difference is within what chance may do. */
export function mayBeChance(change: Change): boolean {
  return change.error !== undefined && Math.abs(difference(change)) <= standardErrors * change.error;
}

/** By stage of a call: null where the stages of one are unknown or others. */
export function explainStages(of: Insight, against: Insight | null): Explained | null {
  const [b, a] = [of.life, against?.life];
  if (!b || (against && (!a || a.stages.map(({ name }) => name).join() !== b.stages.map(({ name }) => name).join()))) return null;
  const parts = b.stages.map((stage, i) => ({
    name: stage.name, a: a?.stages[i]!.mean_us ?? 0, b: stage.mean_us, error: Math.hypot(a?.stages[i]!.error_us ?? 0, stage.error_us),
  }));
  return explained({ name: "A call", a: a ? a.bare_us ?? a.mean_us : 0, b: b.bare_us ?? b.mean_us }, parts, against === null);
}

/** By category of CPU time. */
export function explainCPU(of: Breakdown | undefined, against: Breakdown | undefined, alone: boolean): Explained | null {
  if (!of || (!alone && !against)) return null;
  const parts = merged(against?.categories ?? [], of.categories, ({ name }) => name).map(([name, a, b]) => ({
    name, a: a?.us_per_call ?? 0, b: b?.us_per_call ?? 0, error: Math.hypot(a?.error_us ?? 0, b?.error_us ?? 0),
  }));
  return explained({ name: "CPU time", a: against?.us_per_call ?? 0, b: of.us_per_call }, bySize(parts), true);
}

function explained(whole: Change, parts: Change[], inOrder: boolean): Explained {
  const rest = { name: "Rest", a: whole.a, b: whole.b };
  for (const part of parts) {
    rest.a -= part.a;
    rest.b -= part.b;
  }
  const least = 1e-9 * whole.b;
  return { whole, parts: inOrder ? parts : bySize(parts), rest: Math.abs(rest.a) < least && Math.abs(rest.b) < least ? null : rest };
}

/** Counts of both, those that differ most first. They add up to nothing. */
export function changesOf(of: Count[], against: Count[]): Change[] {
  return bySize(merged(against, of, ({ name }) => name).map(([name, a, b]) => ({ name, a: a?.per_call ?? 0, b: b?.per_call ?? 0 })));
}

/** What two lists have by each name, null where one of them lacks it. */
export function merged<T>(a: T[], b: T[], nameOf: (of: T) => string): [name: string, a: T | null, b: T | null][] {
  const find = (list: T[], name: string) => list.find((one) => nameOf(one) === name) ?? null;
  return [...new Set([...a, ...b].map(nameOf))].map((name) => [name, find(a, name), find(b, name)]);
}

function bySize(changes: Change[]): Change[] {
  return changes.toSorted((x, y) => Math.abs(difference(y)) - Math.abs(difference(x)));
}
