// Loads that are not a closed loop: all at once, and on a schedule.

import { Table } from "../export";
import { useMemo } from "preact/hooks";
import { Chart, type Line } from "../chart";
import { namesOf, type Cell, type CoursePoint, type Run, variantTitle } from "../data";
import { Figured } from "../figure";
import { micros, percent, perSecond, plain, sizes } from "../format";
import { dashOf, type Look } from "../look";
import { latencyMetrics } from "../metrics";
import { Name } from "../name";
import { pointOf } from "../points";
import { conditions, modeBeside } from "../words";

interface Props {
  run: Run;
  looks: Map<string, Look>;
}

export const bursts = (run: Run) => run.cells.filter((cell) => cell.load.burst && cell.drain_us !== null);

const waits = latencyMetrics("response_us").filter(({ id }) => ["p50", "p90", "p99", "max"].includes(id));

export function Bursts({ run, looks }: Props) {
  const cells = useMemo(() => bursts(run), [run]);
  const point = pointOf(cells);
  const lines = useMemo(() => point.cells.filter((cell) => cell.curve.length > 0).map((cell): Line => ({
    name: cell.variant, look: looks.get(cell.variant)!, thin: true, points: cell.curve.map(([quantile, us]) => ({ x: quantile, y: us })),
  })), [point.cells.map((cell) => cell.key).join()]);
  const size = point.cells[0]?.load.burst ?? 0;
  const axes = useMemo(() => ({
    x: { label: "Place in the order of answers", log: false, ticks: [0, 0.25, 0.5, 0.75, 1], show: (quantile: number) => plain(Math.max(1, Math.round(quantile * size))) },
    y: { label: "Time until the answer", log: false, show: micros },
  }), [size]);
  if (cells.length === 0) return null;
  return (
    <section id="bursts">
      <h2>Bursts</h2>
      <p class="note">{plain(size)} requests at one instant. The burst has drained when the last answer has come. Half of the requests had their answers by P50; the last one in the queue waits for all before it.</p>
      {point.where}
      <Answers cells={point.cells} looks={looks} />
      {lines.length > 0 && <Chart title={`Answers by their place, ${plain(size)} at once`} note={conditions(point.cells)} x={axes.x} y={axes.y} lines={lines} />}
    </section>
  );
}

/** What was answered, and after how long. */
function Answers({ cells, looks }: { cells: Cell[]; looks: Map<string, Look> }) {
  const drained = cells.some((cell) => cell.drain_us !== null);
  return (
    <Table name="Answers" titles={[variantTitle, "#Answered", drained && "#Drained in", ...waits.map((metric) => `#${metric.label}`)]} rows={cells.map((cell) => {
      const { share, succeeded, requests } = cell.survival;
      const lost = share !== null && share < 1;
      return {
        key: cell.key, className: cell.valid ? "" : "invalid", cells: [
          <Name cell={cell} looks={looks} />,
          <span class={lost ? "differs" : ""}>{plain(succeeded)} of {plain(requests)}{lost && <small class="interval">{percent(share)}</small>}</span>,
          <Figured value={cell.drain_us} interval={cell.intervals["drain_us"]} show={micros} />,
          ...waits.map((metric) => <Figured value={metric.value(cell)} interval={metric.interval(cell)} show={metric.show} />),
        ],
      };
    })} />
  );
}

const onSchedule = (cell: Cell) => cell.load.model === "ramp" || cell.load.model === "sustained";

export const scheduled = (run: Run) => run.cells.filter((cell) => cell.course.length > 0 && onSchedule(cell));
export const steady = (run: Run) => run.cells.filter((cell) => cell.course.length > 0 && !onSchedule(cell));

export function Courses({ run, looks }: Props) {
  const cells = useMemo(() => scheduled(run), [run]);
  const point = pointOf(cells);
  if (cells.length === 0) return null;
  return (
    <section id="course">
      <h2>Over time</h2>
      <p class="note">Requests sent on a schedule: how many were answered over time, and how long a call took. {conditions(point.cells)}</p>
      {point.where}
      <Answers cells={point.cells} looks={looks} />
      <Multiples cells={point.cells} looks={looks} />
    </section>
  );
}

/** How steady a load was that is meant to stay as it is. */
export function Steady({ run, looks }: Props) {
  const cells = useMemo(() => steady(run), [run]);
  const point = pointOf(cells);
  if (cells.length === 0) return null;
  return (
    <section id="steady">
      <h2>Over the window</h2>
      <p class="note">Rate, service time and CPUs in use over the window and, shaded, over the warm-up before it, from the valid trials. A level line is a steady state; a slope within the window means that the warm-up was too short, and a dip is a pause of the collector or of the machine. {conditions(point.cells)}</p>
      {point.where}
      <Multiples cells={point.cells} looks={looks} />
    </section>
  );
}

const overTime: { title: string; note: string; label: string; show: (value: number) => string; of: (stretch: CoursePoint) => number | null }[] = [
  { title: "Throughput", note: "Answers per second.", label: "Throughput", show: perSecond, of: (stretch) => stretch.throughput_rps },
  { title: "Mean", note: "Service time.", label: "Mean service time", show: micros, of: (stretch) => stretch.mean_us },
  { title: "P99", note: "Service time, exact to 7 %; the median over trials.", label: "P99 of service time", show: micros, of: (stretch) => stretch.p99_us },
  { title: "The client's CPUs", note: "Mean CPUs in use in each interval.", label: "CPUs in use", show: plain, of: (stretch) => stretch.client_cores },
  { title: "The server's CPUs", note: "Mean CPUs in use in each interval.", label: "CPUs in use", show: plain, of: (stretch) => stretch.server_cores },
];

/** What is known of each stretch, a chart a figure over one axis of time. */
function Multiples({ cells, looks }: { cells: Cell[]; looks: Map<string, Look> }) {
  const charts = useMemo(() => {
    const times = cells.flatMap((cell) => cell.course.map(({ seconds }) => seconds));
    // All charts have the same range, whatever is known of each.
    const x = { label: "Second", log: false, show: plain, range: [Math.min(0, ...times), Math.max(...times)] as [number, number], shadedTo: 0 };
    return overTime.flatMap((figure) => {
      const lines = linesOf(cells, looks, figure.of);
      if (lines.every(({ points }) => points.length === 0)) return [];
      const dashed = figure.title === "Throughput" ? offered(cells[0]) : undefined;
      if (dashed && dashed.points.length > 0) lines.push(dashed);
      const most = 1.06 * Math.max(...lines.flatMap(({ points }) => points.map(({ y }) => y)));
      return [{ ...figure, x, y: { label: figure.label, log: false, show: figure.show, range: [0, most || 1] as [number, number] }, lines, note: figure.note + (dashed && dashed.points.length > 0 ? " Dashed: the rate that was offered." : "") }];
    });
  }, [cells.map((cell) => cell.key).join()]);
  return (
    <div class="multiples">
      {charts.map(({ title, note, x, y, lines }) => <Chart key={title} title={title} note={note} x={x} y={y} lines={lines} />)}
    </div>
  );
}

function linesOf(cells: Cell[], looks: Map<string, Look>, of: (stretch: CoursePoint) => number | null): Line[] {
  const names = namesOf(cells, (cell) => [cell.workload, modeBeside(cell), sizes(cell.request_bytes, cell.response_bytes)]);
  return cells.map((cell) => ({
    name: names.get(cell)!, look: looks.get(cell.variant)!, thin: true,
    points: cell.course.filter((stretch) => of(stretch) !== null).map((stretch) => ({ x: stretch.seconds, y: of(stretch)! })),
  }));
}

function offered(cell: Cell | undefined): Line {
  return {
    name: "offered", look: { colour: "--muted", dash: dashOf(1), shape: "circle" }, thin: true, beside: true,
    points: (cell?.course ?? []).filter((stretch) => stretch.offered_rps !== null).map((stretch) => ({ x: stretch.seconds, y: stretch.offered_rps! })),
  };
}
