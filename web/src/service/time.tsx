// The course of a load: what was answered each second, how long it took, and what failed.

import { useMemo } from "preact/hooks";
import { Chart, type Axis, type Line, type Rule } from "../chart";
import type { Cell, CoursePoint } from "../data";
import { micros, percent, perSecond, plain } from "../format";
import { dashOf, type Look } from "../look";
import type { AtPoint } from "../points";

interface Props {
  point: AtPoint;
  looks: Map<string, Look>;
}

interface Series {
  name: string;
  of: (stretch: CoursePoint) => number | null | undefined;
  look: Look;
}

interface Drawing {
  title: string;
  note: string;
  label: string;
  log?: boolean;
  show: (value: number) => string;
  series: Series[];
}

const look = (colour: string, dash = 0): Look => ({ colour, dash: dashOf(dash), shape: "circle" });

const drawings: Drawing[] = [
  {
    title: "Rate", label: "Answers per second", show: perSecond, note: "Answers per second, of any status.",
    series: [
      { name: "answered", of: (stretch) => stretch.throughput_rps, look: look("--stack-0") },
      { name: "offered", of: (stretch) => stretch.offered_rps, look: look("--muted", 1) },
    ],
  },
  {
    title: "Response time", label: "Response time", log: true, show: micros,
    note: "Of the calls that ended in each interval, exact to 7 %.",
    series: [
      { name: "slowest", of: (stretch) => stretch.response_max_us, look: look("--stack-7", 2) },
      { name: "P99", of: (stretch) => stretch.response_p99_us, look: look("--stack-1") },
      { name: "P50", of: (stretch) => stretch.response_p50_us, look: look("--stack-0") },
    ],
  },
  {
    title: "Failures", label: "Failed", show: (share) => percent(share), note: "The share of the calls that failed.",
    series: [{ name: "failed", of: (stretch) => stretch.failed_share, look: look("--bad") }],
  },
  {
    title: "CPUs in use", label: "CPUs", show: plain, note: "Mean of each interval.",
    series: [
      { name: "the client (wirelab)", of: (stretch) => stretch.client_cores, look: look("--end-client") },
      { name: "the service", of: (stretch) => stretch.server_cores, look: look("--stack-2") },
    ],
  },
];

export function OverTime({ point, looks }: Props) {
  const cells = point.cells.filter((cell) => cell.course.length > 0);
  const charts = useMemo(() => (cells.length > 0 ? chartsOf(cells, looks) : []), [cells.map((cell) => cell.key).join()]);
  const failed = point.cells.some((cell) => cell.survival.failures.length > 0);
  return (
    <section id="time">
      <h2>Over time</h2>
      {point.where}
      {cells.length > 0
        ? <p class="note">A dip of the rate with a peak of the response time is a stall.{!failed && " No call failed."}</p>
        : <p class="note">No chart over time: {whyNone(point.cells)}{!failed && " No call failed."}</p>}
      {charts.map((chart) => <Chart key={chart.title} {...chart} />)}
    </section>
  );
}

function whyNone(cells: Cell[]): string {
  if (cells.some((cell) => cell.load.burst)) return "all requests were sent at one instant.";
  if (cells.some((cell) => cell.load.goal)) return "a search tries many rates, which stand below.";
  return `the window took ${micros(1e6 * (cells[0]?.window_seconds ?? 0))}, which is too short for a chart. Load the service for longer, as with -z 10s.`;
}

function chartsOf(cells: Cell[], looks: Map<string, Look>) {
  const times = cells.flatMap((cell) => cell.course.map(({ seconds }) => seconds));
  const first = cells[0]!.course;
  const half = (first[1]!.seconds - first[0]!.seconds) / 2;
  const begin = Math.min(0, ...times.map((seconds) => seconds - half));
  const end = Math.max(...cells.map((cell) => cell.window_seconds));
  const x: Axis = { label: "Seconds since the window began", log: false, show: plain, range: [begin, end + (end - begin) / 100], shadedTo: 0, shaded: "warm-up, counted in no figure" };
  const rules: Rule[] = [{ at: 0, look: look("--muted", 1), text: "the window begins" }, { at: end, look: look("--muted", 1), text: "it ends" }];
  return drawings.flatMap(({ title, note, label, log = false, show, series }) => {
    const lines = series.flatMap(({ name, of, look }) => cells.map((cell): Line => ({
      name: cells.length > 1 ? `${cell.said}, ${name}` : name,
      look: cells.length > 1 ? { ...look, colour: looks.get(cell.variant)!.colour } : look,
      thin: true,
      gaps: name === "P99",
      points: cell.course.flatMap((stretch) => { const y = of(stretch); return y == null || (log && y <= 0) ? [] : [{ x: stretch.seconds, y }]; }),
    }))).filter(({ points }) => points.length > 0);
    const values = lines.flatMap(({ points }) => points.map(({ y }) => y));
    if (values.length === 0 || (title === "Failures" && values.every((share) => share === 0))) return [];
    const range = log ? undefined : [0, 1.12 * Math.max(...values) || 1] as [number, number];
    return [{ title, note, x, y: { label, log, show, range }, lines, rules }];
  });
}
