// The life of one call: its stages one after the other, on one axis for all stacks.

import { useState } from "preact/hooks";
import { linearTicks } from "../axis";
import { Choice } from "../controls";
import { distinct, type Insight, type Life, type Stage } from "../data";
import { micros, plain, times } from "../format";
import { counted } from "../words";
import { microsOf } from "./numbers";

const kinds: [kind: Stage["kind"], what: string][] = [
  ["user", "code of the program and its libraries"],
  ["kernel", "kernel: sends, receives"],
  ["waking", "until a thread has been woken"],
  ["scheduling", "until the thread that was woken reads"],
  ["handler", "handler"],
  ["mixed", "all of it together"],
];

const calls = { mean_us: "mean of all", median_us: "around the median", p99_us: "around P99" } as const;
type Calls = keyof typeof calls;

interface Bar {
  variant: string;
  life: Life;
  stages: { of: Stage; value: number }[]; // none where the calls asked for are too few
  total: number;
}

/** The calls of each insight that has them told apart. */
export function LifeChart({ insights, where }: { insights: Insight[]; where: string }) {
  const [wanted, setWanted] = useState<Calls>("mean_us");
  const bars = insights.flatMap(({ variant, life }) => (life ? [barOf(variant, life, wanted)] : []));
  const bare = wanted === "mean_us";
  const longest = Math.max(...bars.map(({ total, life }) => Math.max(total, bare ? life.bare_us ?? 0 : 0)));
  if (!(longest > 0) && wanted === "mean_us") return null;
  const axis = longest * 1.01; // its last tick may be the longest
  const place = (us: number) => `${(100 * us) / axis}%`;
  const ticks = longest > 0 ? linearTicks([0, axis], 6) : [];
  const seen = new Set<string>(bars.flatMap(({ stages }) => stages.flatMap(({ of }) => [of.kind, of.end])));
  return (
    <figure class="chart life">
      <figcaption>
        <h3>The life of one call, {where}</h3>
        <p class="note">From left to right, in microseconds, with {range(bars.map(({ life }) => life.clients), (n) => counted(n, "client"))}. {callsTold(bars.map(({ life }) => life))}</p>
      </figcaption>
      <div class="choices">
        <Choice label="Calls" options={Object.keys(calls) as Calls[]} chosen={wanted} show={(one) => calls[one]} choose={setWanted} />
      </div>
      <ul class="legend">
        {kinds.filter(([kind]) => seen.has(kind)).map(([kind, what]) => <li key={kind}><i class={`stage swatch-stage ${kind}`} aria-hidden="true" /> {what}</li>)}
        {seen.has("client") && <li><i class="lane" aria-hidden="true"><i class="client" /></i> upper half: at the client</li>}
        {seen.has("server") && <li><i class="lane" aria-hidden="true"><i class="server" /></i> lower half: at the server</li>}
        {bare && bars.some(({ life }) => life.bare_us !== null) && <li><i class="bare-swatch" aria-hidden="true" /> a call without tracing</li>}
      </ul>
      <div class="bars">
        {bars.map((bar) => {
          const show = microsOf(longest);
          let from = 0;
          return (
            <div class="bar" key={bar.variant}>
              <div class="bar-name">{bar.variant}</div>
              <div class="lanes" role="img" aria-label={`${bar.variant}: ${bar.stages.map(({ of, value }) => `${of.name} ${micros(value)}`).join(", ")}`}>
                {ticks.map((tick) => <i class="grid" key={tick} style={{ left: place(tick) }} />)}
                {bar.stages.map(({ of, value }) => {
                  const left = place(from);
                  from += value;
                  const short = of.name.replace(/^\w+: /, "");
                  return (
                    <i key={of.name} class={`stage ${of.kind} ${of.end}`} style={{ left, width: place(value) }} title={`${of.name}: ${micros(value)}, ${Math.round((100 * value) / bar.total)} %`}>
                      <span class={short.length > 8 ? "long" : ""}>{short}</span>
                    </i>
                  );
                })}
                {bare && bar.life.bare_us !== null && <i class="bare" style={{ left: place(bar.life.bare_us) }} title={`without tracing: ${micros(bar.life.bare_us)}`} />}
              </div>
              <div class="bar-total">{bar.stages.length > 0 ? `${show(bar.total)} µs` : "too few calls"}</div>
            </div>
          );
        })}
        <div class="bar" aria-hidden="true">
          <div />
          <div class="axis">{ticks.map((tick) => <span key={tick} style={{ left: place(tick) }}>{plain(tick)}{tick === 0 && " µs"}</span>)}</div>
          <div />
        </div>
      </div>
      <details>
        <summary>Figures of this chart</summary>
        <div class="scroll" tabIndex={0}><Figures bars={bars} longest={longest} bare={bare} /></div>
      </details>
    </figure>
  );
}

function barOf(variant: string, life: Life, wanted: Calls): Bar {
  const stages = life.stages.flatMap((of) => (of[wanted] === null ? [] : [{ of, value: of[wanted] }]));
  return { variant, life, stages, total: stages.reduce((sum, { value }) => sum + value, 0) };
}

/** How many calls there are, how many are not, and what it cost to look. */
function callsTold(lives: Life[]): string {
  const told = range(lives.map(({ calls }) => calls), plain);
  const untold = lives.reduce((sum, life) => sum + life.untold, 0);
  const costs = lives.flatMap(({ cost }) => cost ?? []);
  const each = lives.length > 1 ? " of each" : "";
  return `${told} calls${each}${untold > 0 ? `, and ${counted(untold, "call")} without stages` : ""}. ` +
    (costs.length > 0 ? `A traced call took ${range(costs, times)} as long as an untraced one.` : "The cost of tracing is unknown.");
}

function range(values: number[], show: (value: number) => string): string {
  const [least, most] = [show(Math.min(...values)), show(Math.max(...values))];
  return least === most ? least : `${least} to ${most}`;
}

function Figures({ bars, longest, bare }: { bars: Bar[]; longest: number; bare: boolean }) {
  const show = microsOf(longest);
  const names = distinct(bars.flatMap(({ life }) => life.stages.map(({ name }) => name)));
  const row = (title: string, of: (bar: Bar) => string, id?: string) => (
    <tr key={title} class={id}>
      <th scope="row">{title}</th>
      {bars.map((bar) => <td class="number" key={bar.variant}>{of(bar)}</td>)}
    </tr>
  );
  const known = (value: number | undefined | null, text: (value: number) => string) => (value == null ? "–" : text(value));
  return (
    <table class="figures">
      <thead>
        <tr>
          <th scope="col">Stage, µs</th>
          {bars.map(({ variant }) => <th scope="col" class="number" key={variant}>{variant}</th>)}
        </tr>
      </thead>
      <tbody>
        {names.map((name) => row(name, ({ stages }) => known(stages.find(({ of }) => of.name === name)?.value, show)))}
        {row("Together", ({ stages, total }) => (stages.length > 0 ? show(total) : "–"), "whole")}
        {bare && row("Rest: the cost of tracing, and noise", ({ life, total }) => known(life.bare_us, (us) => show(us - total)))}
        {bare && row("A call without tracing", ({ life }) => known(life.bare_us, show), "whole")}
        {row("A traced call, as a multiple of an untraced one", ({ life }) => known(life.cost, times))}
        {row("Calls with stages", ({ life }) => plain(life.calls))}
        {row("Calls without stages", ({ life }) => plain(life.untold))}
      </tbody>
    </table>
  );
}
