// The figures that a chart or a column can show, each with the path under
// which its interval lies.

import type { Cell, Interval, Latencies } from "./data";
import { micros, perSecond, plain } from "./format";

export interface Metric {
  id: string;
  label: string;
  show: (value: number | null) => string;
  value: (cell: Cell) => number | null;
  interval: (cell: Cell) => Interval | undefined;
  log: boolean; // read on a logarithmic scale
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
