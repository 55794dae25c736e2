// Figures as text, in the units and with the digits of the terminal's table.

import type { Interval } from "./data";

export const absent = "–";

type Unit = [size: number, name: string];

const timeUnits: Unit[] = [[1e-3, "ns"], [1, "µs"], [1e3, "ms"], [1e6, "s"]];
const byteUnits: Unit[] = [[1, "B"], [1024, "KiB"], [1024 ** 2, "MiB"], [1024 ** 3, "GiB"]];

/** Three significant digits of a number below 1,000. */
function significant(value: number): string {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

function suiting(value: number, units: Unit[]): Unit {
  return units.findLast(([size]) => value / size >= 0.9995) ?? units[0]!;
}

export function micros(us: number | null | undefined): string {
  if (us == null) return absent;
  if (us === 0) return "0";
  const [size, name] = suiting(us, timeUnits);
  return `${significant(us / size)} ${name}`;
}

export function bytes(count: number | null | undefined): string {
  if (count == null) return absent;
  const [size, name] = suiting(count, byteUnits);
  return `${short(significant(count / size))} ${name}`;
}

export function sizes(request: number, response: number): string {
  if (request + response === 0) return absent; // the workload decides
  return request === response ? bytes(request) : `${bytes(request)} → ${bytes(response)}`;
}

export function perSecond(rate: number | null): string {
  return rate == null ? absent : `${plain(rate)}/s`;
}

export function plain(value: number | null | undefined): string {
  if (value == null) return absent;
  return value >= 1000 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : significant(value);
}

export function times(value: number | null): string {
  return value == null ? absent : `${plain(value)}×`;
}

/** A share, cut and not rounded, so that 100 % is all of them. */
export function percent(share: number | null | undefined): string {
  return share == null ? absent : `${Math.floor(share * 10_000 + 1e-9) / 100} %`;
}

/** A figure and, where it has one, its interval. */
export function withInterval(value: number | null, interval: Interval | undefined, show: (value: number | null) => string): string {
  return interval && value != null ? `${show(value)} (${show(interval.low)} to ${show(interval.high)})` : show(value);
}

/** Without the zeros after the point, for what is round. */
export function short(text: string): string {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}
