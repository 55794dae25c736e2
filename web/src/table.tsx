// The table of cells: sorted by a click, narrowed by stack and size, each row
// opening to what its figures rest on.

import { Scroll } from "./export";
import { Fragment } from "preact";
import { useMemo } from "preact/hooks";
import { useKept } from "./address";
import { useLocal } from "./controls";
import { type Cell, type Run, variantTitle } from "./data";
import { CellDetail } from "./detail";
import { absent, perSecond, plain, sizes } from "./format";
import type { Look } from "./look";
import { clientCPU, latencyMetrics, serverCPU, tail, throughput, type Clock, type Metric } from "./metrics";
import { Swatch } from "./marks";
import { breakable } from "./name";
import { provenBest } from "./sections/winners";
import { loadText } from "./words";

interface Column {
  id: string;
  title: string;
  number: boolean;
  value: (cell: Cell) => number | string | null;
  show: (cell: Cell) => string;
}

interface Sort {
  id: string;
  down: boolean;
}

/** How many columns there are: what is read at one look, or every figure. */
export type Figures = "main" | "all";

interface Props {
  run: Run;
  cells: Cell[]; // of the run, those that are shown
  looks: Map<string, Look>;
  clock: Clock;
  figures: Figures;
  picked: Set<string>;
  pick: ((key: string) => void) | null; // null: there are no curves to pick for
}

export function CellTable({ run, cells, looks, clock, figures, picked, pick }: Props) {
  const [[kept], keep] = useKept("sort");
  const sort = kept ? { id: kept.replace(/^-/, ""), down: kept.startsWith("-") } : null;
  const [open, setOpen] = useLocal<string | null>("opened", null);
  const columns = useMemo(() => columnsFor(run, cells, clock).filter(({ id }) => (figures === "all" ? id !== "cpu" : !details.has(id))), [run, cells, clock, figures]);
  const rows = useMemo(() => sorted(cells, columns, sort), [cells, columns, kept]);
  const order = (id: string) => (sort?.id !== id ? "none" : sort.down ? "descending" : "ascending");
  const turn = (id: string) => keep(sort?.id !== id ? [id] : sort.down ? [] : [`-${id}`]);
  return (
    <Scroll name="Cells" tall>
      <table class="cells">
        <thead>
          <tr>
            {pick && <th scope="col" class="pick"><span class="hidden">In the percentile curves</span></th>}
            {columns.map((column) => (
              <th scope="col" key={column.id} class={column.number ? "number" : ""} aria-sort={order(column.id)}>
                <button type="button" onClick={() => turn(column.id)}>
                  {column.title}<i aria-hidden="true">{{ none: "", ascending: " ↑", descending: " ↓" }[order(column.id)]}</i>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cell) => (
            <Fragment key={cell.key}>
              <tr class={cell.valid ? "" : "invalid"}>
                {pick && <td class="pick">
                  <input type="checkbox" aria-label={`${cell.key} in the percentile curves`} disabled={!cell.valid} checked={picked.has(cell.key)} onChange={() => pick(cell.key)} />
                </td>}
                {columns.map((column, i) => (i === 0 ? (
                  <th scope="row" key={column.id}>
                    <button type="button" class="opener" aria-expanded={open === cell.key} onClick={() => setOpen(open === cell.key ? null : cell.key)}>
                      <Swatch look={looks.get(cell.variant)!} /> {breakable(column.show(cell))}
                      {!cell.valid && <b class="badge">invalid</b>}
                    </button>
                  </th>
                ) : (
                  <td key={column.id} class={column.number ? "number" : column.id} data-title={column.title}>{column.show(cell)}</td>
                )))}
              </tr>
              {open === cell.key && (
                <tr class="opened">
                  <td colSpan={columns.length + (pick ? 1 : 0)}><CellDetail cell={cell} /></td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="note">No cell matches the filters.</p>}
    </Scroll>
  );
}

/** Columns that only those who ask for all figures see. */
const details = new Set(["p90", "p999", "p9999", "max", tail.id, clientCPU.id, serverCPU.id, "connection"]);

function columnsFor(run: Run, cells: Cell[], clock: Clock): Column[] {
  const text = (id: string, title: string, show: (cell: Cell) => string): Column => ({ id, title, number: false, value: show, show });
  const whole = (id: string, title: string, value: (cell: Cell) => number, show: (cell: Cell) => string): Column => ({ id, title, number: true, value, show });
  const metric = (of: Metric): Column => ({ id: of.id, title: of.label, number: true, value: of.value, show: (cell) => of.show(of.value(cell)) });
  const best = new Map(cells.map((cell) => [cell, provenBest(run, cell)]));
  const known = (column: Column) => (cells.some((cell) => column.value(cell)) ? [column] : []);
  const varying = (column: Column) => (new Set(cells.map(column.show)).size > 1 ? [column] : []);
  return [
    text("variant", variantTitle, (cell) => cell.variant),
    ...varying(text("part", "Part", (cell) => cell.part)),
    ...varying(text("workload", "Workload", (cell) => cell.workload)),
    ...varying(text("link", "Link", (cell) => cell.network?.link ?? "loopback")),
    ...varying(whole("agents", "Machines", (cell) => cell.agents ?? 0, (cell) => plain(cell.agents))),
    ...varying(whole("size", "Size", (cell) => cell.request_bytes, (cell) => sizes(cell.request_bytes, cell.response_bytes))),
    ...varying(whole("clients", "Clients", (cell) => cell.clients, (cell) => plain(cell.clients))),
    metric(throughput),
    ...latencyMetrics(clock).filter(({ id }) => id !== "p95").flatMap((of) => [metric(of), ...(of.id === "mean" ? known({ id: "within", title: "±", number: true, value: (cell) => halfWidth(of, cell), show: (cell) => within(of, cell) }) : [])]),
    metric(tail),
    ...varying(whole("errors", "Errors", (cell) => cell.errors, (cell) => plain(cell.errors))),
    metric({ ...clientCPU, id: "cpu", label: "CPU", value: (cell) => sum(clientCPU.value(cell), serverCPU.value(cell)) }),
    metric(clientCPU),
    metric(serverCPU),
    { id: "valid", title: "Valid", number: false, value: (cell) => cell.valid_trials, show: (cell) => (cell.valid ? `${cell.valid_trials}/${cell.trials}` : cell.capacity_rps ? `beyond capacity, about ${perSecond(cell.capacity_rps)}` : "invalid") },
    ...known(text("best", "Proven best", (cell) => best.get(cell) ?? "")),
    text("connection", "Connection", (cell) => cell.connection),
    ...varying(text("load", "Load", (cell) => loadText(cell.load))),
  ];
}

/** Half of the interval of a figure, as a share of it. */
function halfWidth(metric: Metric, cell: Cell): number | null {
  const [value, interval] = [metric.value(cell), metric.interval(cell)];
  return value && interval ? (interval.high - interval.low) / 2 / value : null;
}

function within(metric: Metric, cell: Cell): string {
  const share = halfWidth(metric, cell);
  return share === null ? absent : `±${(100 * share).toFixed(share < 0.0095 ? 1 : 0)} %`;
}

/** What has no figure stands last, whichever way the rest is sorted. */
function sorted(cells: Cell[], columns: Column[], sort: Sort | null): Cell[] {
  const column = columns.find(({ id }) => id === sort?.id);
  if (!column || !sort) return cells;
  return cells.toSorted((a, b) => {
    const [left, right] = [column.value(a), column.value(b)];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    const rank = typeof left === "number" ? left - (right as number) : left.localeCompare(right as string);
    return sort.down ? -rank : rank;
  });
}

function sum(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}
