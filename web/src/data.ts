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

/** What one end cost over the window. */
export interface End {
  cpu_share: number | null;
  busy: number | null;
  rss_bytes: number | null;
  peak_bytes: number | null;
  own_bytes: number | null;
  heap_bytes: number | null;
  threads: number | null;
  sockets: number | null;
  goroutines: number | null;
}

export interface Failure {
  class?: string;
  code: string;
  count: number;
  example: string;
}

/** Over all trials that were measured, refused ones included. */
export interface Survival {
  trials: number;
  requests: number;
  succeeded: number;
  share: number | null;
  failures: Failure[];
}

export interface Times {
  mean: number | null;
  p50: number | null;
  p99: number | null;
}

export interface Connections {
  per_request: boolean;
  secure: boolean;
  want: number;
  during: number;
  failed: number;
  full: number;
  resumed: number;
  early: number;
  early_refused: number;
  handshake_failed: number;
  achieved: number | null;
  differs: boolean;
  connect_us: Times;
  handshake_us: Times;
  first_byte_us: Times;
}

/** One way of the traffic, by the request. */
export interface Direction {
  bytes: number | null;
  handshake: number | null;
  packets: number | null;
  pure_acks: number | null;
  packets_per_call: number | null;
}

export interface Traffic {
  transport: string;
  offload: string;
  sent: Direction;
  received: Direction;
  retransmits_per_thousand: number | null;
  rtt_us: number | null;
  min_rtt_us: number | null;
}

export interface WireBytes {
  message_bytes: number | null;
  protocol_bytes: number | null;
  security_bytes: number | null;
  transport_bytes: number | null;
  ack_bytes: number | null;
  total_bytes: number | null;
}

export interface Wire {
  request: WireBytes;
  response: WireBytes;
  first_sent_bytes: number | null;
  first_received_bytes: number | null;
  handshake_sent_bytes: number | null;
  handshake_received_bytes: number | null;
}

export interface Load {
  model: string;
  requests_per_client?: number;
  duration_ns?: number;
  rate_per_second?: number;
  arrivals?: string;
  ramp_to?: number;
  burst?: number;
  goal?: string;
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

/** A stretch of a load on a schedule. */
export interface Course {
  seconds: number;
  offered_rps: number;
  throughput_rps: number;
  mean_us: number | null;
}

/** What looking for the highest rate that keeps a goal found. */
export interface Search {
  percentile: number;
  limit_us: number;
  kept_rps: number | null;
  missed_rps: number | null;
  steps: Step[];
  knee: { found: boolean; rate_rps: number | null; low_rps: number | null; high_rps: number | null; confidence: number | null; reason: string };
  why: string;
}

export interface Step {
  repeat: number;
  offered_rps: number;
  achieved_rps: number;
  figure_us: number | null;
  kept: boolean;
  why: string;
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
  error_kinds: Failure[];
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
  drain_us: number | null; // of a burst
  search?: Search;
  client: End;
  server: End;
  bound: "server-cpu" | "client-cpu" | "waiting" | "";
  survival: Survival;
  connections: Connections;
  traffic?: Traffic;
  wire?: Wire;
  valid: boolean;
  trials: number;
  valid_trials: number;
  warnings: string[];
  intervals: Intervals;
  repeats: Repeat[];
  curve: [quantile: number, us: number][]; // of response time
  course: Course[]; // of a ramp or a sustained load
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

/** What one choice changes: two variants that differ in one option of their connections. */
export interface Contrast {
  part: string;
  stack: string;
  option: string;
  base: string;
  changed: string;
  from: string;
  to: string;
  request_bytes: number;
  response_bytes: number;
  clients: number;
  pairs: number;
  effects: Effect[];
}

export interface Effect {
  metric: string;
  ratio: number | null;
  p: number | null;
  verdict: "more" | "less" | "equivalent" | "undecided";
  intervals: Intervals;
}

/** How throughput follows the calls in flight. */
export interface Scaling {
  part: string;
  variant: string;
  connection: string;
  workload: string;
  request_bytes: number;
  points: {
    clients: number;
    throughput_rps: number | null;
    ideal_rps: number | null;
    share_of_ideal: number | null;
    law_rps: number | null;
    intervals: Intervals;
  }[];
  law?: { contention: number | null; coherency: number | null; peak: number | null; intervals: Intervals };
  reason: string;
  diagnosis: {
    text: string;
    connections: number | null;
    in_flight: number | null;
    client_busy: number | null;
    server_busy: number | null;
    requests_per_write: number | null;
    requests_per_segment: number | null;
    idle_share: number | null;
    blocked_share: number | null;
    retransmits_per_thousand: number | null;
  };
}

/** One value that is not a library's default. */
export interface Setting {
  stack: string;
  variants: string[];
  side: string;
  name: string;
  value: string;
  default: string;
  why: string;
}

/** One of the machine's limits, where the run came nearest to it. */
export interface MachineLimit {
  name: string;
  need: number;
  have: number;
  short: boolean;
  note: string;
  cell: string;
}

/** A claim of the scenario, and what the run says to it. */
export interface Claim {
  row: string;
  says: string;
  part: string;
  clients: number;
  of: string;
  against: string;
  figure: string;
  claimed_ratio: number | null;
  below: string;
  outcome: "holds" | "holds less" | "does not hold" | "undecided" | "not measured";
  of_figure: number | null;
  against_figure: number | null;
  ratio: number | null;
  pairs: number;
  intervals: Intervals;
}

/** Where the heap allocations of one end come from, by trials that were not measured. */
export interface Allocation {
  part: string;
  variant: string;
  workload: string;
  clients: number;
  end: "client" | "server";
  trials: number;
  calls: number;
  bytes_per_call: number;
  objects_per_call: number;
  functions: Allocator[];
  tree: Branch[];
}

export interface Allocator {
  function: string;
  bytes_share: number;
  objects_share: number;
}

/** Functions that call one another in a row, and what the last one calls. */
export interface Branch {
  functions: string[];
  bytes_share: number;
  objects_share: number;
  calls: Branch[];
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
  contrasts: Contrast[];
  scalings: Scaling[];
  claims: Claim[];
  allocations: Allocation[];
  settings: Setting[];
  machine_limits: MachineLimit[];
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
