// What more clients bring, and what they cost in time.

import { useMemo } from "preact/hooks";
import { Chart, type Axis, type Line } from "../chart";
import { distinct, type Cell, type Run } from "../data";
import { plain } from "../format";
import type { Look } from "../look";
import { latencyMetrics, throughput, type Metric } from "../metrics";
import { counted, validText } from "../words";

interface Props {
  run: Run;
  looks: Map<string, Look>;
}

export const hasSteps = (run: Run) => new Set(run.cells.map((cell) => cell.clients)).size > 1;

const p99 = latencyMetrics("response_us").find(({ id }) => id === "p99")!;
const p50 = latencyMetrics("response_us").find(({ id }) => id === "p50")!;

export function Steps({ run, looks }: Props) {
  const charts = useMemo(() => {
    const ticks = distinct(run.cells.map((cell) => cell.clients));
    const x: Axis = { label: "Clients", log: true, ticks, show: plain };
    return [{ title: "Throughput", metric: throughput }, { title: "P99 of the response time", metric: p99 }, { title: "P50 of the response time", metric: p50 }].flatMap(({ title, metric }) => {
      const lines = linesOf(run.cells, looks, metric);
      const y: Axis = { label: metric.label, log: metric !== throughput, show: metric.show, ...(metric === throughput && { range: rangeOf(lines) }) };
      return lines.length > 0 ? [{ title: `${title} against the number of clients`, x, y, lines }] : [];
    });
  }, [run]);
  if (!hasSteps(run)) return null;
  const invalid = run.cells.filter((cell) => !cell.valid);
  return (
    <section id="steps">
      <h2>Against the number of clients</h2>
      <p class="note">The service is at its limit where the throughput stops growing and the response time starts to grow.</p>
      {invalid.length > 0 && <p class="banner" role="status">Not reliable: {invalid.map((cell) => counted(cell.clients, "client")).join(", ")}. The checks below say why.</p>}
      <div class="multiples">{charts.map((chart) => <Chart key={chart.title} {...chart} />)}</div>
    </section>
  );
}

function linesOf(cells: Cell[], looks: Map<string, Look>, metric: Metric): Line[] {
  return [...Map.groupBy(cells, (cell) => cell.variant)].map(([variant, same]): Line => ({
    name: variant, look: looks.get(variant)!,
    points: same.filter((cell) => metric.value(cell) !== null).map((cell) => ({ x: cell.clients, y: metric.value(cell)!, ...metric.interval(cell), unsure: !metric.interval(cell), note: validText(cell) })),
  })).filter(({ points }) => points.length > 0);
}

function rangeOf(lines: Line[]): [number, number] {
  return [0, 1.1 * Math.max(...lines.flatMap(({ points }) => points.map(({ y, high }) => high ?? y))) || 1];
}
