// The figures that a chart or a column can show, each with the path under
// which its interval lies.

import type { Cell, Interval, Latencies } from "./data";
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

const percentiles: [keyof Latencies, string][] = [
  ["mean", "Mean"], ["p50", "P50"], ["p90", "P90"], ["p95", "P95"], ["p99", "P99"], ["p999", "P99.9"], ["p9999", "P99.99"], ["max", "Max"],
];

export function latencyMetrics(clock: Clock): Metric[] {
  return percentiles.map(([id, label]) => ({
    id,
    label,
    show: micros,
    value: (cell) => cell[clock][id],
    interval: (cell) => cell.intervals[`${clock}.${id}`],
    log: true,
  }));
}

type Field = "throughput_rps" | "p99_over_p50" | "client_cpu_us" | "server_cpu_us";

function fieldMetric(id: Field, label: string, show: Metric["show"], log: boolean): Metric {
  return { id, label, show, value: (cell) => cell[id], interval: (cell) => cell.intervals[id], log };
}

export const throughput = fieldMetric("throughput_rps", "Throughput", perSecond, true);
export const tail = fieldMetric("p99_over_p50", "P99/P50", plain, true);
export const clientCPU = fieldMetric("client_cpu_us", "Client CPU", micros, true);
export const serverCPU = fieldMetric("server_cpu_us", "Server CPU", micros, true);

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

function handshake(id: "p50" | "p99", label: string): Metric {
  return {
    id: `handshake_${id}`,
    label,
    show: micros,
    value: (cell) => cell.connections.handshake_us[id],
    interval: (cell) => cell.intervals[`connections.handshake_us.${id}`],
    log: true,
  };
}

export const handshakeP50 = handshake("p50", "Handshake P50");
export const handshakeP99 = handshake("p99", "Handshake P99");

export const serverPeak: Metric = {
  id: "server_peak",
  label: "Server memory",
  show: bytes,
  value: (cell) => cell.server.peak_bytes,
  interval: (cell) => cell.intervals["server.peak_bytes"],
  log: true,
};

/** Whether a cell has a figure that may be shown. */
export function shows(cell: Cell, metric: Metric): boolean {
  return (cell.valid || metric.counted === true) && metric.value(cell) !== null;
}
