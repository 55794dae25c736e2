// Who wins where: a map of sizes and callers, for parts that were measured at two or
// more of each, and one of delays and what else links do, for calls that were measured
// over several of both.

import { useMemo } from "preact/hooks";
import { Drawing } from "../export";
import { Choice, useLocal } from "../controls";
import { distinct, type Cell, type Comparison, type Run } from "../data";
import { micros, sizes, times } from "../format";
import type { Look } from "../look";
import { latencyMetrics, shows, throughput, type Metric } from "../metrics";
import { Swatch } from "../marks";
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
  sure: boolean; // it certainly beats all others
}

const sizeOf = (cell: Cell) => sizes(cell.request_bytes, cell.response_bytes);

/** A map: which cells it has, and what tells its rows and its columns. */
interface Sheet {
  name: string;
  rowTitle: string;
  row: (cell: Cell) => string;
  column: (cell: Cell) => string;
  cells: Cell[];
  rows: string[];
  columns: string[];
}

function sheet(of: Pick<Sheet, "name" | "rowTitle" | "row" | "column" | "cells">, along: (cell: Cell) => number, across: (cell: Cell) => number): Sheet {
  const inOrder = (show: (cell: Cell) => string, by: (cell: Cell) => number) => distinct(of.cells.toSorted((a, b) => by(a) - by(b)).map(show));
  return { ...of, rows: inOrder(of.row, along), columns: inOrder(of.column, across) };
}

/** Whether there is more than one row and column, more points than a line has, and something to compare. */
function isMap({ cells, rows, columns, row, column }: Sheet): boolean {
  const points = new Set(cells.map((cell) => `${row(cell)} ${column(cell)}`));
  return rows.length > 1 && columns.length > 1 && points.size > rows.length && new Set(cells.map(({ variant }) => variant)).size > 1;
}

const kindOf = (cell: Cell) => `${cell.workload}, ${loadText({ ...cell.load, in_flight_limit: undefined })}`;

/** The maps of a run. */
export function mapped(run: Run): Sheet[] {
  const parts = [...Map.groupBy(run.cells, ({ part }) => part)]
    .filter(([, cells]) => new Set(cells.map(kindOf)).size === 1)
    .map(([name, cells]) => sheet({
      name, cells, rowTitle: "Size", row: sizeOf, column: (cell) => counted(cell.clients, "client"),
    }, (cell) => cells.indexOf(cell), ({ clients }) => clients));
  const links = [...Map.groupBy(run.cells, (cell) => `${kindOf(cell)}, ${sizeOf(cell)}, ${counted(cell.clients, "client")}`)]
    .filter(([, cells]) => cells.some(({ network }) => network?.link))
    .map(([name, cells]) => sheet({
      name: `links: ${name}`, cells, rowTitle: "Delay", row: delayText, column: conditionText,
    }, ({ network }) => network?.delay_ns ?? 0, (cell) => cells.indexOf(cell)));
  return [...parts, ...links].filter(isMap);
}

const delayText = ({ network }: Cell) => (network?.delay_ns ? `${micros(network.delay_ns / 1000)} each way` : "none");

/** What a link does besides to delay. */
function conditionText({ network }: Cell): string {
  const rest = (network?.link ?? "").split(",").filter((text) => !/(^|\.)delay=|^emulated=/.test(text));
  return rest.join(", ").replaceAll("=", " ") || "nothing else";
}

export function Winners({ run, looks }: Props) {
  const sheets = useMemo(() => mapped(run), [run]);
  const [wanted, setName] = useLocal("map", "");
  const [figure, setFigure] = useLocal<Figure>("figure", "mean");
  const of = sheets.find((one) => one.name === wanted) ?? sheets[0];
  const won = useMemo(() => (of ? winnersOf(run, of, figure) : []), [of, figure, run]);
  if (!of) return null;
  const map = { ...of, won };
  const sure = map.won.flat().filter((won) => won?.sure).length;
  const known = map.won.flat().filter((won) => won !== null).length;
  const { label, most } = figures[figure];
  const names = distinct(map.won.flat().flatMap((won) => (won ? [won.cell.variant] : [])));
  return (
    <section id="winners">
      <h2>Who wins where</h2>
      <p class="note">The stack with the {most ? "highest throughput" : `lowest ${label === "Mean" ? "mean time" : label}`} at each point, and how many times better it is than the next.</p>
      <div class="choices">
        <Choice label="Map" options={sheets.map((one) => one.name)} chosen={of.name} choose={setName} />
        <Choice label="Figure" options={Object.keys(figures) as Figure[]} chosen={figure} show={(id) => figures[id].label} choose={setFigure} />
      </div>
      <Drawing title={`${label}: the best stack by ${of.rowTitle === "Size" ? "size and clients" : "delay and the link's other conditions"}`} note={<>{names.length === 1 ? `${names[0]} is best at all ${counted(known, "point")}` : `${names.join(", ")} are best somewhere`}; {sure === known ? "each lead is proven" : `${sure === 0 ? "no lead is" : `${sure} of ${counted(known, "lead")} are`} proven`}. {names.length > 1 && "A heavy line separates different winners; it is broken where a lead beside it may be chance."}</>}>
        <div class="scroll" tabIndex={0}>
          <table class="map">
            <thead>
              <tr>
                <th scope="col">{of.rowTitle}</th>
                {map.columns.map((column) => <th scope="col" key={column}>{column}</th>)}
              </tr>
            </thead>
            <tbody>
              {map.rows.map((title, row) => (
                <tr key={title}>
                  <th scope="row">{title}</th>
                  {map.columns.map((other, column) => <Winner key={other} won={map.won[row]![column]!} looks={looks} left={map.won[row]![column - 1]} above={map.won[row - 1]?.[column]} />)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <ul class="legend">
          {names.map((name) => <li key={name}><Swatch look={looks.get(name)!} /> {name}</li>)}
          {sure < known && <li><i class="tile unsure" /> the lead may be chance</li>}
        </ul>
      </Drawing>
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
      <small>{won.next ? `${leadText(won.lead)} ${won.next.variant}` : "alone"}{won.next && !won.sure && <span class="hidden">, may be chance</span>}</small>
    </td>
  );
}

/** How far the winner leads. Trial by trial it may be behind whom it beats by all requests together. */
const leadText = (lead: number | null) => (lead === null ? "before" : lead < 1 ? "level with" : `${times(lead)} over`);

function winnersOf(run: Run, { cells, rows, columns, row, column }: Sheet, figure: Figure): (Won | null)[][] {
  const { metric, most } = figures[figure];
  const compared = run.comparisons.filter((pair) => pair.metric === figure);
  return rows.map((along) => columns.map((across): Won | null => {
    const there = cells.filter((cell) => row(cell) === along && column(cell) === across && shows(cell, metric));
    const [best, next] = there.toSorted((a, b) => (most ? -1 : 1) * (metric.value(a)! - metric.value(b)!));
    if (!best) return null;
    const lead = next ? leadOf(compared, best, next, most) : null;
    return { cell: best, next, lead: lead?.times ?? null, sure: there.length > 1 && there.every((cell) => cell === best || leadOf(compared, best, cell, most)?.sure === true) };
  }));
}

/** The figures in which a cell is proven best of its point. */
export function provenBest(run: Run, best: Cell): string {
  const rivals = run.cells.filter((cell) => cell !== best && cell.part === best.part && cell.workload === best.workload && sizeOf(cell) === sizeOf(best) && cell.clients === best.clients && cell.valid);
  const wins = (figure: Figure) => rivals.length > 0 && rivals.every((cell) => leadOf(run.comparisons.filter((pair) => pair.metric === figure), best, cell, figures[figure].most)?.sure);
  return (Object.keys(figures) as Figure[]).filter(wins).map((figure) => figures[figure].label.replace("Throughput", "rate").replace("Mean", "mean")).join(", ");
}

/** How much better one cell is than another by the trials of both, as far as they were compared. */
function leadOf(compared: Comparison[], best: Cell, other: Cell, most: boolean): { times: number; sure: boolean } | null {
  const at = (pair: Comparison) => pair.part === best.part && pair.request_bytes === best.request_bytes && pair.response_bytes === best.response_bytes && pair.clients === best.clients;
  const pair = compared.find((one) => at(one) && ((one.a === best.variant && one.b === other.variant) || (one.a === other.variant && one.b === best.variant)));
  if (!pair || pair.ratio === null) return null;
  const first = pair.a === best.variant;
  return { times: first === most ? pair.ratio : 1 / pair.ratio, sure: pair.verdict === (first ? "faster" : "slower") };
}
