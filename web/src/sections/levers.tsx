// Which levers were tried on a cell, and what each does: an interval each, around 1.

import type { LeverEffect, LeverTest, Run } from "../data";
import { Forest, type Effect, type Side } from "../forest";
import { micros, percent, plain, sizes, times } from "../format";
import { counted } from "../words";

const few = 12;

export function Levers({ run: { levers } }: { run: Run }) {
  if (levers.length === 0) return null;
  return (
    <section id="levers">
      <h2>Levers</h2>
      <p class="note">Each lever is one change of the plain variant, measured beside it in the same blocks. A lever moves the cell if it is proven that calls are faster with it; the verdicts are corrected for the number of levers.</p>
      {levers.map((test) => (
        <div key={JSON.stringify([test.part, test.plain, test.request_bytes, test.response_bytes, test.clients])}>
          <Forest
            title={`${{ mean: "Mean", p99: "P99", cpu: "CPU time" }[test.metric]} with the lever, over that of ${test.plain}`}
            note={noteOf(test)} subject="Lever" below="moves it" above="makes it slower"
            effects={test.levers.filter(({ ratio }) => ratio !== null).map((lever) => effectOf(test, lever))} few={few}
          />
          {test.not_tried.length > 0 && (
            <details>
              <summary>{counted(test.not_tried.length, "lever")} not tried</summary>
              <ul>{test.not_tried.map(({ name, why }) => <li key={name}><code>{name}</code>: {why}</li>)}</ul>
            </details>
          )}
        </div>
      ))}
    </section>
  );
}

function noteOf(test: LeverTest): string {
  const size = sizes(test.request_bytes, test.response_bytes);
  const at = [test.workload, size === "–" ? "" : size, counted(test.clients, "client")].filter(Boolean).join(", ");
  const gap = test.gap === null ? "" : `; ${times(test.gap)} that of ${test.against}`;
  return `${at}: ${micros(test.plain_us)} without a lever${gap}`;
}

function effectOf(test: LeverTest, lever: LeverEffect): Effect {
  const interval = lever.intervals["ratio"];
  const share = lever.share === null ? "" : `removes ${percent(lever.share)} of the difference to ${test.against}`;
  const cpu = lever.cpu_ratio === null || test.metric === "cpu" ? "" : `CPU time ${times(lever.cpu_ratio)}`;
  return {
    key: lever.variant, name: <code>{lever.name}</code>, note: [share, cpu].filter(Boolean).join("; "),
    ratio: lever.ratio!, low: interval?.low, high: interval?.high, side: sideOf(lever), word: wordOf(lever),
  };
}

function sideOf({ verdict, delay }: LeverEffect): Side {
  if (delay) return "open";
  return ({ faster: "below", slower: "above", equivalent: "at", undecided: "open" } as const)[verdict];
}

function wordOf({ verdict, margin, delay, slope }: LeverEffect): string {
  if (delay) return slope === null ? "a delay" : `${plain(Math.round(slope * 100) / 100)} µs per µs`;
  const words = { faster: "moves it", slower: "makes it slower", equivalent: `equal within ${plain(Math.round(margin * 100))} %`, undecided: "not proven" };
  return words[verdict];
}
