import type { Interval } from "./data";

interface Props {
  value: number | null;
  interval: Interval | undefined;
  show: (value: number | null) => string;
}

/** A figure with its interval beneath it. */
export function Figured({ value, interval, show }: Props) {
  return <>{show(value)}{interval && value !== null && <small class="interval">{show(interval.low)} to {show(interval.high)}</small>}</>;
}

/** A figure in a table. */
export const Figure = (props: Props) => <td class="number"><Figured {...props} /></td>;
