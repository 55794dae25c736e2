import type { Interval } from "./data";

interface Props {
  value: number | null;
  interval: Interval | undefined;
  show: (value: number | null) => string;
}

/** A figure in a table, with its interval beneath it. */
export function Figure({ value, interval, show }: Props) {
  return (
    <td class="number">
      {show(value)}
      {interval && value !== null && <small class="interval">{show(interval.low)} to {show(interval.high)}</small>}
    </td>
  );
}
