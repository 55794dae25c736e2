// The slow calls of the compared cells beside their median calls, stage by stage.

import type { Insight, Tail } from "../data";
import { micros, plain } from "../format";
import { Lanes, Legend, Swatch, type Bar } from "./lanes";
import { microsOf, more } from "./numbers";

const leastShare = 0.05; // of the difference, of a stage that the list names
const percent = (share: number) => `${Math.round(100 * share)} %`.replace("-", "−");

export function TailChart({ insights }: { insights: Insight[] }) {
  const known = insights.flatMap(({ variant, tail }) => (tail && !tail.refused ? [{ variant, tail }] : []));
  const refused = insights.flatMap(({ variant, tail }) => (tail?.refused ? [`${variant}: ${tail.refused}.`] : []));
  if (known.length === 0) return refused.length === 0 ? null : <p class="note">The slow calls are not explained. {refused.join(" ")}</p>;
  const bars = known.flatMap(({ variant, tail }) => barsOf(variant, tail));
  return (
    <figure class="chart tail">
      <figcaption>
        <h4>Slow calls beside median calls</h4>
        <p class="note">Median calls are those between P40 and P60 of the same trials. Labels are shares of the difference. {refused.join(" ")}</p>
      </figcaption>
      <Legend bars={bars} />
      <Lanes bars={bars} />
      {known.map(({ variant, tail }) => (
        <div class="tail-shares" key={variant}>
          <p class="note">{variant}: where the {micros(tail.slow_us - tail.median_us)} between a slow call and a median call are spent</p>
          <ul class="legend">
            {tail.stages.filter(({ share_of_excess }) => share_of_excess >= leastShare).toSorted((a, b) => b.share_of_excess - a.share_of_excess).map((stage) => (
              <li key={stage.name}><Swatch kind={stage.kind} /> {stage.name} <b>{percent(stage.share_of_excess)}</b></li>
            ))}
          </ul>
        </div>
      ))}
      <details>
        <summary>Figures of this chart</summary>
        <div class="tables">{known.map((one) => <TailTable key={one.variant} {...one} />)}</div>
      </details>
    </figure>
  );
}

function barsOf(variant: string, tail: Tail): Bar[] {
  const share = (part: number) => (part >= leastShare ? ` ${percent(part)}` : "");
  return [
    { name: `${variant}: median`, total: tail.median_us, stages: tail.stages.map((of) => ({ of, value: of.median_us })) },
    { name: `${variant}: slowest ${percent(tail.slow_calls / tail.calls)}`, total: tail.slow_us, stages: tail.stages.map((of) => ({ of, value: of.slow_us, label: of.name.replace(/^\w+: /, "") + share(of.share_of_excess) })) },
  ];
}

function TailTable({ variant, tail }: { variant: string; tail: Tail }) {
  const show = microsOf(tail.slow_us);
  return (
    <div class="explained" data-table="tail">
      <p class="note">{variant}: {plain(tail.slow_calls)} slow and {plain(tail.median_calls)} median calls of {plain(tail.calls)}</p>
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Stage, µs per call</th>
              <th scope="col" class="number">Median calls</th>
              <th scope="col" class="number">Slow calls</th>
              <th scope="col" class="number">Difference</th>
              <th scope="col" class="number">Share of it</th>
              <th scope="col" class="number">Share of variance</th>
            </tr>
          </thead>
          <tbody>
            {tail.stages.map((stage) => (
              <tr key={stage.name}>
                <th scope="row">{stage.name}</th>
                <td class="number">{show(stage.median_us)}</td>
                <td class="number">{show(stage.slow_us)}</td>
                <td class="number">{more(stage.excess_us, show)}</td>
                <td class="number">{percent(stage.share_of_excess)} <small>({percent(stage.interval.low)} to {percent(stage.interval.high)})</small></td>
                <td class="number">{percent(stage.share_of_variance)}</td>
              </tr>
            ))}
            <tr class="whole">
              <th scope="row">= A call</th>
              <td class="number">{show(tail.median_us)}</td>
              <td class="number">{show(tail.slow_us)}</td>
              <td class="number">{more(tail.slow_us - tail.median_us, show)}</td>
              <td />
              <td />
            </tr>
          </tbody>
        </table>
      </div>
    </div>
  );
}
