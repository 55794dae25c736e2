// What several sections say in the same words.

import type { Cell, Load } from "./data";
import { plain } from "./format";
import type { Clock } from "./metrics";

export const clockNames: Record<Clock, string> = { response_us: "Response time", service_us: "Service time" };

export function loadText(load: Load): string {
  const parts = [load.model === "closed" || load.model === "open" ? `${load.model} loop` : load.model];
  if (load.burst) parts.push(`${plain(load.burst)} at once`);
  if (load.goal) parts.push(load.goal);
  if (load.ramp_to) parts.push(`${plain(load.rate_per_second)} to ${plain(load.ramp_to)}/s`);
  else if (load.stages) parts.push(`${load.rate_per_second ? `from ${plain(load.rate_per_second)}/s ` : ""}${load.stages}`);
  else if (load.rate_per_second) parts.push(`${plain(load.rate_per_second)}/s ${load.arrivals ?? ""}`.trim());
  if (load.in_flight_limit) parts.push(`at most ${load.in_flight_limit} in flight`);
  return parts.join(", ");
}

/** The connection mode, for beside a variant that does not say it itself. */
export function modeBeside(cell: Cell): string {
  return cell.variant.includes("conn=") ? "" : cell.connection;
}

/** Over which connections, and under which load, cells were measured. */
export function conditions(cells: Cell[]): string {
  const connections = [...new Set(cells.map((cell) => (modeBeside(cell) ? `${cell.variant} ${cell.connection}` : "as in each variant's conn option")))];
  const loads = [...new Set(cells.map((cell) => loadText(cell.load)))];
  return `Connections: ${connections.join(", ")}. Load: ${loads.join("; ")}.`;
}

/** One or many of something. */
export function counted(count: number, one: string, many = one + "s"): string {
  return `${plain(count)} ${count === 1 ? one : many}`;
}

/** How many valid trials the figures of a cell have. */
export function validText(cell: Cell): string {
  return `${cell.valid_trials} of ${cell.trials} trials valid${cell.disturbed_trials > 0 ? ", for ratios only" : ""}`;
}
