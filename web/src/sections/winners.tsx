// Who wins where: a map of sizes and callers, for parts that were measured at two or
// more of each.

import { useMemo, useState } from "preact/hooks";
import { Choice } from "../controls";
import { distinct, type Cell, type Comparison, type Run } from "../data";
import { sizes, times } from "../format";
import type { Look } from "../look";
import { latencyMetrics, shows, throughput, type Metric } from "../metrics";
import { Swatch } from "../swatch";
import { counted, loadText } from "../words";

interface Props {
  run: Run;
  looks: Map<string, Look>;
}

type Figure = "mean" | "p99" | "throughput";

const waits = latencyMetrics("response_us");
const figures: Record<Figure, { label: string; metric: Metric; most: boolean }> = {
  mean: { label: "Mean", metric: waits.find(({ id }) => id === "mean")!, most: false },
  p99: { label: "P99", metric: waits.find(({ id }) => id === "p99")!, most: false },
  throughput: { label: "Throughput", metric: throughput, most: true },
};

/** The winner of a point, with its lead over the next. */
interface Won {
  cell: Cell;
  next: Cell | undefined;
  lead: number | null; // how many times better; of the trials that both have
  sure: boolean; // it beats all others beyond doubt
}

const sizeOf = (cell: Cell) => sizes(cell.request_bytes, cell.response_bytes);

/** The parts that make a map: one kind of call and load at several sizes, each with several numbers of clients. */
export function mapped(run: Run): string[] {
  return distinct(run.cells.map(({ part }) => part)).filter((part) => {
    const cells = run.cells.filter((cell) => cell.part === part);
    const alike = new Set(cells.map((cell) => JSON.stringify([cell.workload, loadText({ ...cell.load, in_flight_limit: undefined })])));
    const points = new Set(cells.map((cell) => `${sizeOf(cell)} ${cell.clients}`));
    const [rows, columns] = [new Set(cells.map(sizeOf)).size, new Set(cells.map(({ clients }) => clients)).size];
    return alike.size === 1 && rows > 1 && columns > 1 && points.size > rows && new Set(cells.map(({ variant }) => variant)).size > 1;
  });
}

export function Winners({ run, looks }: Props) {
  const parts = useMemo(() => mapped(run), []);
  const [part, setPart] = useState(parts[0] ?? "");
  const [figure, setFigure] = useState<Figure>("mean");
  const map = useMemo(() => mapOf(run, part, figure), [part, figure]);
  if (parts.length === 0) return null;
  const sure = map.won.flat().filter((won) => won?.sure).length;
  const known = map.won.flat().filter((won) => won !== null).length;
  const { label, most } = figures[figure];
  const names = distinct(map.won.flat().flatMap((won) => (won ? [won.cell.variant] : [])));
  return (
    <section id="winners">
      <h2>Who wins where</h2>
      <p class="note">The stack with the {most ? "highest throughput" : `lowest ${label === "Mean" ? "mean time" : label}`} at each size and number of clients, and how many times better it is than the next.</p>
      <div class="choices">
        <Choice label="Part" options={parts} chosen={part} choose={setPart} />
        <Choice label="Figure" options={Object.keys(figures) as Figure[]} chosen={figure} show={(id) => figures[id].label} choose={setFigure} />
      </div>
      <figure class="chart">
        <figcaption>
          <h3>{label}: the best stack by size and clients</h3>
          <p class="note">{names.length === 1 ? `${names[0]} is best at all ${counted(known, "point")}` : `${names.join(", ")} are best somewhere`}; {sure === known ? "each lead is beyond doubt" : `${sure === 0 ? "no lead is" : `${sure} of ${counted(known, "lead")} are`} beyond doubt`}. {names.length > 1 && "A heavy line lies where the winner changes, broken where a lead beside it may be chance."}</p>
        </figcaption>
        <div class="scroll" tabIndex={0}>
          <table class="map">
            <thead>
              <tr>
                <th scope="col">Size</th>
                {map.clients.map((clients) => <th scope="col" key={clients}>{counted(clients, "client")}</th>)}
              </tr>
            </thead>
            <tbody>
              {map.sizes.map((size, row) => (
                <tr key={size}>
                  <th scope="row">{size}</th>
                  {map.clients.map((clients, column) => <Winner key={clients} won={map.won[row]![column]!} looks={looks} left={map.won[row]![column - 1]} above={map.won[row - 1]?.[column]} />)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <ul class="legend">
          {names.map((name) => <li key={name}><Swatch look={looks.get(name)!} /> {name}</li>)}
          {sure < known && <li><i class="tile unsure" /> the lead may be chance</li>}
        </ul>
      </figure>
    </section>
  );
}

interface WinnerProps {
  won: Won | null;
  looks: Map<string, Look>;
  left: Won | null | undefined;
  above: Won | null | undefined;
}

function Winner({ won, looks, left, above }: WinnerProps) {
  if (!won) return <td class="none">no valid figure</td>;
  const look = looks.get(won.cell.variant)!;
  const edge = (side: string, other: Won | null | undefined) => (other && other.cell.variant !== won.cell.variant ? `edge-${side} ${other.sure && won.sure ? "" : `unsure-${side}`}` : "");
  return (
    <td class={`tile ${won.sure ? "" : "unsure"} ${edge("left", left)} ${edge("top", above)}`} style={{ "--of": `var(${look.colour})` }}>
      <span><Swatch look={look} /> {won.cell.variant}</span>
      <small>{won.next ? `${times(won.lead)} over ${won.next.variant}` : "alone"}{won.next && !won.sure && <span class="hidden">, may be chance</span>}</small>
    </td>
  );
}

function mapOf(run: Run, part: string, figure: Figure) {
  const { metric, most } = figures[figure];
  const cells = run.cells.filter((cell) => cell.part === part);
  const compared = run.comparisons.filter((pair) => pair.part === part && pair.metric === figure);
  const rows = distinct(cells.map(sizeOf));
  const clients = distinct(cells.map((cell) => cell.clients));
  const won = rows.map((size) => clients.map((count): Won | null => {
    const there = cells.filter((cell) => sizeOf(cell) === size && cell.clients === count && shows(cell, metric));
    const [best, next] = there.toSorted((a, b) => (most ? -1 : 1) * (metric.value(a)! - metric.value(b)!));
    if (!best) return null;
    const lead = next ? leadOf(compared, best, next, most) : null;
    return { cell: best, next, lead: lead?.times ?? null, sure: there.length > 1 && there.every((cell) => cell === best || leadOf(compared, best, cell, most)?.sure === true) };
  }));
  return { sizes: rows, clients, won };
}

/** How much better one cell is than another by the trials of both, as far as they were compared. */
function leadOf(compared: Comparison[], best: Cell, other: Cell, most: boolean): { times: number; sure: boolean } | null {
  const at = (pair: Comparison) => pair.request_bytes === best.request_bytes && pair.response_bytes === best.response_bytes && pair.clients === best.clients;
  const pair = compared.find((one) => at(one) && ((one.a === best.variant && one.b === other.variant) || (one.a === other.variant && one.b === best.variant)));
  if (!pair || pair.ratio === null) return null;
  const first = pair.a === best.variant;
  return { times: first === most ? pair.ratio : 1 / pair.ratio, sure: pair.verdict === (first ? "faster" : "slower") };
}
