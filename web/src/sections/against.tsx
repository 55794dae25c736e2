// A figure against the size of the messages or against the number of clients,
// a line a variant.

import { useMemo, useState } from "preact/hooks";
import { Chart, type Axis, type Line, type Rule } from "../chart";
import { Choice } from "../controls";
import { distinct, namesOf, type Cell } from "../data";
import { bytes, plain } from "../format";
import type { Look } from "../look";
import { latencyMetrics, shows, throughput, type Clock, type Metric } from "../metrics";
import { clockNames, conditions, loadText } from "../words";

type Across = "request_bytes" | "clients";

/** What is fixed in a chart: one part, and one value of the other dimension. */
export interface Point {
  part: string;
  fixed: number;
}

interface Props {
  title: string;
  across: Across;
  cells: Cell[];
  looks: Map<string, Look>;
  /** Other figures than the latencies, which all charts offer unless only these are wanted. */
  further: Metric[];
  onlyFurther?: boolean;
  rules?: (at: Point) => Rule[];
}

const words = {
  request_bytes: { label: "Message size", other: "Clients", one: "size", show: bytes, showOther: plain },
  clients: { label: "Clients", other: "Message size", one: "number of clients", show: plain, showOther: bytes },
};

const noRules = () => [];

export function Against({ title, across, cells, looks, further, onlyFurther = false, rules = noRules }: Props) {
  const other: Across = across === "clients" ? "request_bytes" : "clients";
  const points = useMemo(() => drawable(cells, across, onlyFurther ? further : [throughput]), [cells]);
  const [part, setPart] = useState(points[0]?.part ?? "");
  const [fixed, setFixed] = useState(points[0]?.fixed ?? 0);
  const [clock, setClock] = useState<Clock>("response_us");
  const metrics = useMemo(() => (onlyFurther ? further : [...latencyMetrics(clock), ...further]), [clock]);
  const [metricID, setMetric] = useState(metrics[0]!.id);

  const inPart = points.filter((point) => point.part === part).map((point) => point.fixed);
  const at: Point = { part, fixed: inPart.includes(fixed) ? fixed : (inPart[0] ?? 0) };
  const metric = metrics.find((candidate) => candidate.id === metricID)!;
  const word = words[across];

  const chart = useMemo(() => {
    const used = cells.filter((cell) => cell.part === at.part && cell[other] === at.fixed);
    const known = used.filter((cell) => shows(cell, metric));
    const ticks = distinct(known.map((cell) => cell[across]));
    const x: Axis = { label: word.label, log: ticks[0]! > 0, ticks, show: word.show };
    const y: Axis = { label: metric.label, log: metric.log, show: metric.show, range: metric.range };
    const missing = used.filter((cell) => !shows(cell, metric)).map((cell) => `${cell.variant} at ${word.show(cell[across])}`);
    return { x, y, used: known, missing, lines: linesOf(known, across, metric, looks), rules: rules(at) };
  }, [cells, at.part, at.fixed, metric]);

  if (points.length === 0) {
    return <p class="note">{title} needs more than one {word.one} with valid trials: there is nothing to draw.</p>;
  }
  const apart = cells.some((cell) => cell.response_apart);
  return (
    <>
      <div class="choices">
        <Choice label="Part" options={distinct(points.map((point) => point.part))} chosen={at.part} choose={setPart} />
        <Choice label={word.other} options={inPart} chosen={at.fixed} show={word.showOther} choose={setFixed} />
        <Choice label="Figure" options={metrics.map(({ id }) => id)} chosen={metric.id} show={(id) => metrics.find((m) => m.id === id)!.label} choose={setMetric} />
        {apart && !onlyFurther && <Choice label="Time" options={["response_us", "service_us"] as Clock[]} chosen={clock} show={(name) => clockNames[name]} choose={setClock} />}
      </div>
      <Chart
        title={`${metric.label} against ${word.label.toLowerCase()}, ${across === "clients" ? `${bytes(at.fixed)} messages` : `${plain(at.fixed)} client${at.fixed === 1 ? "" : "s"}`}`}
        note={[conditions(chart.used), !metric.counted && intervalNote(chart.lines), chart.missing.length > 0 && `Without a valid figure: ${chart.missing.join(", ")}.`].filter(Boolean).join(" ")}
        x={chart.x} y={chart.y} lines={chart.lines} rules={chart.rules}
      />
    </>
  );
}

/** The points at which there is something to draw, in the order of the cells. */
function drawable(cells: Cell[], across: Across, metrics: Metric[]): Point[] {
  const other = across === "clients" ? "request_bytes" : "clients";
  const points: Point[] = [];
  for (const part of distinct(cells.map((cell) => cell.part))) {
    const valid = cells.filter((cell) => cell.part === part && metrics.some((metric) => shows(cell, metric)));
    for (const fixed of distinct(valid.map((cell) => cell[other]))) {
      const there = distinct(valid.filter((cell) => cell[other] === fixed).map((cell) => cell[across]));
      if (there.length > 1) points.push({ part, fixed });
    }
  }
  return points;
}

/** Cells that differ in nothing but the place on the x axis make a line. */
function linesOf(cells: Cell[], across: Across, metric: Metric, looks: Map<string, Look>): Line[] {
  const apart = (cell: Cell) => [
    cell.workload,
    cell.connection,
    loadText(cell.load),
    cell.request_bytes === cell.response_bytes ? "" : `answers of ${bytes(cell.response_bytes)}`,
  ];
  const groups = [...Map.groupBy(cells, (cell) => [cell.variant, ...apart(cell)].join("\n")).values()];
  const names = namesOf(groups.map((group) => group[0]!), apart);
  return groups.map((group) => ({
    name: names.get(group[0]!)!,
    look: looks.get(group[0]!.variant)!,
    points: group.map((cell) => ({
      x: cell[across],
      y: metric.value(cell)!,
      low: metric.interval(cell)?.low,
      high: metric.interval(cell)?.high,
    })).sort((a, b) => a.x - b.x),
  }));
}

function intervalNote(lines: Line[]): string {
  const some = lines.some((line) => line.points.some((point) => point.low !== undefined));
  return some ? "Bars are intervals over the trials." : "There are too few trials for intervals.";
}
