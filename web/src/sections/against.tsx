// A figure against the size of the messages or against the number of clients,
// one line per variant.

import { useMemo } from "preact/hooks";
import { useKeptChoice } from "../address";
import { Chart, type Axis, type Line, type Rule } from "../chart";
import { Choice } from "../controls";
import { distinct, namesOf, type Cell } from "../data";
import { bytes, plain, sizes } from "../format";
import type { Look } from "../look";
import { latencyMetrics, shows, throughput, type Clock, type Metric } from "../metrics";
import { Where } from "../points";
import { conditions, counted, loadText, validText } from "../words";

type Across = "request_bytes" | "clients";
type Measure = Across | "response_bytes";

/** What is fixed in a chart: one part, and one value of the other dimension. */
export interface Point {
  part: string;
  fixed: number;
}

interface Props {
  across: Across;
  cells: Cell[];
  looks: Map<string, Look>;
  /** Other figures than the latencies, which all charts offer unless only these are wanted. */
  further: Metric[];
  onlyFurther?: boolean;
  rules?: (at: Point) => Rule[];
}

const words = {
  request_bytes: { label: "Message size", other: (count: number) => counted(count, "client"), show: bytes },
  response_bytes: { label: "Size of the answer", other: (count: number) => counted(count, "client"), show: bytes },
  clients: { label: "Clients", other: (size: number) => `messages of ${bytes(size)}`, show: plain },
};

const noRules = () => [];

export function Against({ across, cells, looks, further, onlyFurther = false, rules = noRules }: Props) {
  const other: Across = across === "clients" ? "request_bytes" : "clients";
  const points = useMemo(() => drawable(cells, across, onlyFurther ? further : [throughput]), [cells]);
  const [clock] = useKeptChoice<Clock>("time", ["response_us", "service_us"]);
  const metrics = useMemo(() => (onlyFurther ? further : [...latencyMetrics(clock), ...further]), [clock]);
  const at: Point = points[0] ?? { part: "", fixed: 0 };
  const usual = metrics.find((one) => differs(one, cells, at.part)) ?? metrics[0]!;
  const [metricID, setMetric] = useKeptChoice(`figure-${across === "clients" ? "clients" : "size"}${onlyFurther ? "-more" : ""}`, distinct([usual.id, ...metrics.map(({ id }) => id)]));
  const metric = metrics.find((candidate) => candidate.id === metricID)!;
  const measure = measureOf(cells.filter((cell) => cell.part === at.part), across);
  const word = words[measure];

  const chart = useMemo(() => {
    const used = cells.filter((cell) => cell.part === at.part && cell[other] === at.fixed);
    const known = used.filter((cell) => shows(cell, metric));
    const ticks = distinct(known.map((cell) => cell[measure]));
    const x: Axis = { label: word.label, log: ticks[0]! > 0, ticks, show: word.show };
    const y: Axis = { label: metric.label, log: metric.log, show: metric.show, range: metric.range };
    const missing = used.filter((cell) => !shows(cell, metric)).map((cell) => `${cell.variant} at ${word.show(cell[measure])}`);
    return { x, y, used: known, missing, lines: linesOf(known, measure, metric, looks), rules: rules(at) };
  }, [cells, at.part, at.fixed, metric]);

  if (points.length === 0) return null;
  return (
    <>
      {points.length > 1 && <Where text={[distinct(points.map(({ part }) => part)).length > 1 && at.part, word.other(at.fixed)].filter(Boolean).join(", ")} />}
      <div class="choices">
        <Choice label="Figure" options={metrics.map(({ id }) => id)} chosen={metric.id} show={(id) => metrics.find((m) => m.id === id)!.label} choose={setMetric} />
      </div>
      <Chart
        id={across} title={[`${metric.label} against ${word.label.toLowerCase()}`, across === "clients" ? messages(chart.used) : counted(at.fixed, "client")].filter(Boolean).join(", ")}
        note={[conditions(chart.used), !metric.counted && intervalNote(chart.lines), chart.missing.length > 0 && `Without a valid figure: ${chart.missing.join(", ")}.`].filter(Boolean).join(" ")}
        x={chart.x} y={chart.y} lines={chart.lines} rules={chart.rules} grouped={chart.x.ticks!.length < 4}
      />
    </>
  );
}

/** Whether a figure differs between the cells of a part, so that a chart of it says something. */
function differs(metric: Metric, cells: Cell[], part?: string): boolean {
  return distinct(cells.filter((cell) => cell.part === part).map((cell) => metric.value(cell) ?? 0)).length > 1;
}

/** What their messages are like, where the workload does not decide. */
function messages([cell]: Cell[]): string {
  return cell && cell.request_bytes + cell.response_bytes > 0 ? `${sizes(cell.request_bytes, cell.response_bytes)} messages` : "";
}

/** Where only answers grow, it is their size that figures are held against. */
function measureOf(cells: Cell[], across: Across): Measure {
  const alone = across === "request_bytes" && distinct(cells.map((cell) => cell.request_bytes)).length === 1;
  return alone && distinct(cells.map((cell) => cell.response_bytes)).length > 1 ? "response_bytes" : across;
}

/** Whether there is a line to draw. */
export function hasAgainst(cells: Cell[], across: Across, only?: Metric[]): boolean {
  return drawable(cells, across, only ?? [throughput]).length > 0;
}

/** The points at which there is a line to draw, in the order of the cells: dots alone make none. */
function drawable(cells: Cell[], across: Across, metrics: Metric[]): Point[] {
  const other = across === "clients" ? "request_bytes" : "clients";
  const points: Point[] = [];
  for (const part of distinct(cells.map((cell) => cell.part))) {
    const measure = measureOf(cells.filter((cell) => cell.part === part), across);
    const valid = cells.filter((cell) => cell.part === part && metrics.some((metric) => shows(cell, metric)));
    for (const fixed of distinct(valid.map((cell) => cell[other]))) {
      const lines = groupsOf(valid.filter((cell) => cell[other] === fixed), measure);
      if (lines.some((line) => new Set(line.map((cell) => cell[measure])).size > 1)) points.push({ part, fixed });
    }
  }
  return points;
}

/** What tells lines of one variant apart. */
const apartIn = (measure: Measure) => (cell: Cell) => [
  cell.workload,
  cell.connection,
  loadText(cell.load),
  measure === "response_bytes" || cell.request_bytes === cell.response_bytes ? "" : `answers of ${bytes(cell.response_bytes)}`,
];

/** Cells that differ in nothing but the place on the x axis. */
function groupsOf(cells: Cell[], measure: Measure): Cell[][] {
  return [...Map.groupBy(cells, (cell) => [cell.variant, ...apartIn(measure)(cell)].join("\n")).values()];
}

function linesOf(cells: Cell[], measure: Measure, metric: Metric, looks: Map<string, Look>): Line[] {
  const groups = groupsOf(cells, measure);
  const names = namesOf(groups.map((group) => group[0]!), apartIn(measure));
  return groups.map((group) => ({
    name: names.get(group[0]!)!,
    look: looks.get(group[0]!.variant)!,
    points: group.map((cell) => ({
      x: cell[measure],
      y: metric.value(cell)!,
      low: metric.interval(cell)?.low,
      high: metric.interval(cell)?.high,
      unsure: !metric.counted && !metric.interval(cell),
      note: validText(cell),
    })).sort((a, b) => a.x - b.x),
  }));
}

function intervalNote(lines: Line[]): string {
  const some = lines.some((line) => line.points.some((point) => point.low !== undefined));
  return some ? "Bars are intervals over the trials." : "Too few trials for intervals.";
}
