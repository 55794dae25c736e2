// What the page shows: the object of --json and what only the page needs, in
// the form that internal/report/page.go writes. No figure is computed here;
// cells are only chosen and put side by side.

export interface Interval {
  low: number;
  high: number;
  confidence: number;
}

export type Intervals = Record<string, Interval>;

export interface Latencies {
  mean: number | null;
  p50: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  p999: number | null;
  p9999: number | null;
  max: number | null;
}

export interface Load {
  model: string;
  requests_per_client?: number;
  duration_ns?: number;
  rate_per_second?: number;
  arrivals?: string;
  in_flight_limit?: number;
}

export interface Repeat {
  trial: number;
  valid: boolean;
  throughput_rps: number | null;
  mean_us: number | null;
  p50_us: number | null;
  p99_us: number | null;
}

export interface Cell {
  key: string;
  part: string;
  stack: string;
  variant: string;
  workload: string;
  request_bytes: number;
  response_bytes: number;
  clients: number;
  connection: string;
  load: Load;
  requests: number;
  errors: number;
  error_kinds: { code: string; count: number; example: string }[];
  throughput_rps: number | null;
  service_us: Latencies;
  response_us: Latencies;
  wait_us?: Latencies;
  response_apart: boolean; // response_us is not service_us
  p99_over_p50: number | null;
  client_cpu_us: number | null;
  server_cpu_us: number | null;
  in_flight: number | null;
  warm_up_ms: number | null;
  connections_opened: number | null;
  valid: boolean;
  trials: number;
  valid_trials: number;
  warnings: string[];
  intervals: Intervals;
  repeats: Repeat[];
  curve: [quantile: number, us: number][]; // of response time
}

export interface Comparison {
  part: string;
  a: string;
  b: string;
  workload: string;
  request_bytes: number;
  response_bytes: number;
  clients: number;
  load: Load;
  metric: string;
  pairs: number;
  ratio: number | null;
  p: number | null;
  verdict: "faster" | "slower" | "equivalent" | "undecided";
  margin: number | null;
  intervals: Intervals;
}

export interface Knee {
  part: string;
  variant: string;
  connection: string;
  request_bytes: number;
  by: string;
  found: boolean;
  clients: number | null;
  reason: string;
  intervals: Intervals;
}

export interface Crossover {
  part: string;
  a: string;
  b: string;
  clients: number;
  bytes: number | null;
  kind: string;
  size_before: number;
  size_after: number;
  before: number | null;
  after: number | null;
  intervals: Intervals;
}

export interface Limit {
  part: string;
  without: string;
  with: string;
  request_bytes: number;
  clients: number;
  limit: number;
  throughput_ratio: number | null;
  mean_service_ratio: number | null;
  mean_response_ratio: number | null;
  tail_without: number | null;
  tail_with_service: number | null;
  tail_with_response: number | null;
  p50_without_us: number | null;
  p99_without_us: number | null;
  p50_with_us: number | null;
  p99_with_us: number | null;
  intervals: Intervals;
}

export interface WarmUp {
  part: string;
  variant: string;
  request_bytes: number;
  clients: number;
  trials: number;
  settled: number;
  needed_ms: number | null;
  needed_requests: number | null;
  first_over_settled: number | null;
  intervals: Intervals;
}

export interface Run {
  name: string;
  title: string;
  question: string;
  started: string;
  status: string;
  partial: boolean;
  seed: string;
  command: string;
  machine: string;
  host: Record<string, unknown>;
  directory: string;
  trials: { planned: number; done: number; invalid: number; failed: number };
  cells: Cell[];
  comparisons: Comparison[];
  knees: Knee[];
  crossovers: Crossover[];
  limits: Limit[];
  warm_ups: WarmUp[];
  advice: string[];
  warnings: string[];
}

/** The run that the page was written with. */
export function readRun(): Run {
  return JSON.parse(document.getElementById("run")!.textContent!) as Run;
}

/** The different values of a list, numbers ascending, texts as they come. */
export function distinct<T extends string | number>(values: T[]): T[] {
  const unique = [...new Set(values)];
  return typeof unique[0] === "number" ? (unique as number[]).sort((a, b) => a - b) as T[] : unique;
}

/**
 * A name for each cell that tells it from the others given: the variant, and
 * what else differs between cells of the same variant.
 */
export function namesOf(cells: Cell[], show: (cell: Cell) => string[]): Map<Cell, string> {
  const names = new Map<Cell, string>();
  for (const same of Map.groupBy(cells, (cell) => cell.variant).values()) {
    const texts = same.map(show);
    for (const [i, cell] of same.entries()) {
      const apart = texts[i]!.filter((text, place) => texts.some((other) => other[place] !== text));
      names.set(cell, [cell.variant, ...apart].join(" · "));
    }
  }
  return names;
}
