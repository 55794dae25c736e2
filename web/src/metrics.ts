// The figures that a chart or a column can show, each with the path under
// which its interval lies.

import { figures, type Cell, type Interval } from "./data";
import { bytes, micros, percent, perSecond, plain } from "./format";

export interface Metric {
  id: string;
  label: string;
  show: (value: number | null) => string;
  value: (cell: Cell) => number | null;
  interval: (cell: Cell) => Interval | undefined;
  log: boolean; // read on a logarithmic scale
  range?: [low: number, high: number]; // that the scale always has
  counted?: boolean; // known of a cell that is not valid too
}

export type Clock = "response_us" | "service_us";

type Path = (typeof figures)[number]["path"];

const units = { us: micros, rps: perSecond, bytes, share: percent, "": plain };

const metrics: Metric[] = figures.map(({ path, label, unit }) => ({
  id: path,
  label,
  show: units[unit],
  value: (cell) => path.split(".").reduce<any>((of, name) => of[name], cell),
  interval: (cell) => cell.intervals[path],
  log: true,
}));

function metric(path: Path, label?: string): Metric {
  const found = metrics.find(({ id }) => id === path)!;
  return { ...found, label: label ?? found.label };
}

/** The figures of one clock; what each is called is the same for both. */
export function latencyMetrics(clock: Clock): Metric[] {
  return metrics.filter(({ id }) => id.startsWith(`${clock}.`)).map((found) => ({ ...found, id: found.id.slice(clock.length + 1) }));
}

/** The figures that a cell has besides its latencies. */
export const cellMetrics = metrics.filter(({ id }) => !id.includes("."));

export const throughput = metric("throughput_rps");
export const tail = metric("p99_over_p50");
export const clientCPU = metric("client_cpu_us");
export const serverCPU = metric("server_cpu_us");
export const handshakeP50 = metric("connections.handshake_us.p50", "Handshake P50");
export const serverPeak = metric("server.peak_bytes", "Server memory");

/** How many requests were answered, of all trials that were measured. */
export const survival: Metric = {
  id: "survival",
  label: "Answered",
  show: percent,
  value: (cell) => cell.survival.share,
  interval: () => undefined,
  log: false,
  range: [0, 1.04],
  counted: true,
};

/** Whether a cell has a figure that may be shown. */
export function shows(cell: Cell, metric: Metric): boolean {
  return (cell.valid || metric.counted === true) && metric.value(cell) !== null;
}
