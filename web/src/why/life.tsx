// The life of one call: its stages one after the other, on one axis for all stacks.

import { Drawing, Grid } from "../export";
import { distinct, type Insight, type Life } from "../data";
import { micros, plain, times } from "../format";
import { counted } from "../words";
import { Lanes, Legend, type Bar } from "./lanes";
import { microsOf } from "./numbers";

interface LifeBar extends Bar {
  life: Life;
}

/** The mean call of each insight whose calls are divided into stages. */
export function LifeChart({ insights, where }: { insights: Insight[]; where: string }) {
  const bars = insights.flatMap(({ variant, life }) => (life ? [barOf(variant, life)] : []));
  if (!bars.some(({ total }) => total > 0)) return null;
  return (
    <Drawing class="life" title={`The life of one call, ${where}`} note={`From left to right, in microseconds, the mean of all calls. ${callsTold(bars.map(({ life }) => life))}`} figures={<Figures bars={bars} />}>
      <Legend bars={bars}>
        {bars.some(({ mark }) => mark) && <li><i class="bare-swatch" aria-hidden="true" /> a call without tracing</li>}
      </Legend>
      <Lanes bars={bars} />
    </Drawing>
  );
}

function barOf(name: string, life: Life): LifeBar {
  const stages = life.stages.map((of) => ({ of, value: of.mean_us }));
  const mark = life.bare_us === null ? {} : { mark: { at: life.bare_us, title: `without tracing: ${micros(life.bare_us)}` } };
  return { name, life, stages, total: stages.reduce((sum, { value }) => sum + value, 0), ...mark };
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

function Figures({ bars }: { bars: LifeBar[] }) {
  const show = microsOf(Math.max(...bars.map(({ total, mark }) => Math.max(total, mark?.at ?? 0))));
  const names = distinct(bars.flatMap(({ life }) => life.stages.map(({ name }) => name)));
  const row = (title: string, of: (bar: LifeBar) => string, className?: string) => ({ key: title, className, cells: [title, ...bars.map(of)] });
  const known = (value: number | undefined | null, text: (value: number) => string) => (value == null ? "–" : text(value));
  return (
    <Grid class="figures" titles={["Stage, µs", ...bars.map(({ name }) => `#${name}`)]} rows={[
      ...names.map((name) => row(name, ({ stages }) => known(stages.find(({ of }) => of.name === name)?.value, show))),
      row("Together", ({ total }) => show(total), "whole"),
      row("Rest: the cost of tracing, and noise", ({ life, total }) => known(life.bare_us, (us) => show(us - total))),
      row("A call without tracing", ({ life }) => known(life.bare_us, show), "whole"),
      row("A traced call, as a multiple of an untraced one", ({ life }) => known(life.cost, times)),
      row("Calls with stages", ({ life }) => plain(life.calls)),
      row("Calls without stages", ({ life }) => plain(life.untold)),
    ]} />
  );
}
