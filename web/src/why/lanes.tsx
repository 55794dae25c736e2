// Bars of a call's stages: one after the other, the client's above the server's, on one axis.

import type { ComponentChildren } from "preact";
import { linearTicks } from "../marks";
import type { Stage } from "../data";
import { micros, short } from "../format";

const kinds: [kind: Stage["kind"], what: string][] = [
  ["user", "code of the program and its libraries"],
  ["kernel", "kernel: sends, receives"],
  ["waking", "until a thread has been woken"],
  ["scheduling", "until the call gets a CPU"],
  ["waiting", "waiting: for a lock, a window, data"],
  ["collector", "garbage collector"],
  ["handler", "handler"],
  ["mixed", "all of it together"],
];

export type NamedStage = Pick<Stage, "name" | "kind" | "end">;

export interface Bar {
  name: string;
  stages: { of: NamedStage; value: number; label?: string }[]; // in microseconds; the label replaces the stage's name
  total: number;
  mark?: { at: number; title: string }; // a line across the bar
}

/** What the colours and the two halves of bars mean. */
export function Legend({ bars, children }: { bars: Bar[]; children?: ComponentChildren }) {
  const seen = new Set<string>(bars.flatMap(({ stages }) => stages.flatMap(({ of }) => [of.kind, of.end])));
  return (
    <ul class="legend">
      {kinds.filter(([kind]) => seen.has(kind)).map(([kind, what]) => <li key={kind}><Swatch kind={kind} /> {what}</li>)}
      {seen.has("client") && <li><i class="lane" aria-hidden="true"><i class="client" /></i> upper half: at the client</li>}
      {seen.has("server") && <li><i class="lane" aria-hidden="true"><i class="server" /></i> lower half: at the server</li>}
      {children}
    </ul>
  );
}

export function Swatch({ kind }: { kind: Stage["kind"] }) {
  return <i class={`stage swatch-stage ${kind}`} aria-hidden="true" />;
}

export function Lanes({ bars }: { bars: Bar[] }) {
  const longest = Math.max(...bars.map(({ total, mark }) => Math.max(total, mark?.at ?? 0)));
  const axis = longest * 1.01; // its last tick may be the longest
  const place = (us: number) => `${(100 * us) / axis}%`;
  const ticks = linearTicks([0, axis], 6);
  return (
    <div class="bars">
      {bars.map(({ name, stages, total, mark }) => {
        let from = 0;
        return (
          <div class="bar" key={name}>
            <div class="bar-name">{name}</div>
            <div class="lanes" role="img" aria-label={`${name}: ${stages.map(({ of, value }) => `${of.name} ${micros(value)}`).join(", ")}`}>
              {ticks.map((tick) => <i class="grid" key={tick} style={{ left: place(tick) }} />)}
              {stages.filter(({ value }) => value > 0).map(({ of, value, label = of.name.replace(/^\w+: /, "") }) => {
                const left = place(from);
                from += value;
                return (
                  <i key={of.name} class={`stage ${of.kind} ${of.end}`} style={{ left, width: place(value) }} title={`${of.name}: ${micros(value)}, ${Math.round((100 * value) / total)} %`}>
                    <span class={label.length > 8 ? "long" : ""}>{label}</span>
                  </i>
                );
              })}
              {mark && <i class="bare" style={{ left: place(mark.at) }} title={mark.title} />}
            </div>
            <div class="bar-total">{micros(total)}</div>
          </div>
        );
      })}
      <div class="bar" aria-hidden="true">
        <div />
        <div class="axis">{ticks.map((tick) => <span key={tick} style={{ left: place(tick) }}>{short(micros(tick))}</span>)}</div>
        <div />
      </div>
    </div>
  );
}
