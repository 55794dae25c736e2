// What several sections say in the same words.

import type { Cell, Load } from "./data";
import { plain } from "./format";
import type { Clock } from "./metrics";

export const clockNames: Record<Clock, string> = { response_us: "Response time", service_us: "Service time" };

export function loadText(load: Load): string {
  const parts = [load.model + " loop"];
  if (load.rate_per_second) parts.push(`${plain(load.rate_per_second)}/s ${load.arrivals ?? ""}`.trim());
  if (load.in_flight_limit) parts.push(`at most ${load.in_flight_limit} in flight`);
  return parts.join(", ");
}

/** Over which connections, and under which load, cells were measured. */
export function conditions(cells: Cell[]): string {
  const connections = [...new Set(cells.map((cell) => `${cell.variant} ${cell.connection}`))];
  const loads = [...new Set(cells.map((cell) => loadText(cell.load)))];
  return `Connections: ${connections.join(", ")}. Load: ${loads.join("; ")}.`;
}

/** One or many of something. */
export function counted(count: number, one: string, many = one + "s"): string {
  return `${plain(count)} ${count === 1 ? one : many}`;
}
