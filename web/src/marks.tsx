// What all charts share: scales with their ticks, the marks of points, and their intervals.

import type { Look, Shape } from "./look";

export type Range = [low: number, high: number];

/** A Scale maps values to places, in pixels or percent. */
export interface Scale {
  (value: number): number;
  valueAt: (place: number) => number;
  range: Range;
  log: boolean;
}

export function scaleOf(range: Range, log: boolean, [from, to]: Range): Scale {
  const turn = log ? Math.log : (value: number) => value;
  const [low, across] = [turn(range[0]), turn(range[1]) - turn(range[0]) || 1];
  const back = (share: number) => (log ? Math.exp(low + share * across) : low + share * across);
  return Object.assign((value: number) => from + ((turn(value) - low) / across) * (to - from), { valueAt: (place: number) => back((place - from) / (to - from)), range, log });
}

/** Round values of a scale, at least the given distance apart. */
export function ticksOf(scale: Scale, apart: number): number[] {
  const most = Math.max(2, Math.floor(Math.abs(scale(scale.range[1]) - scale(scale.range[0])) / apart));
  return scale.log ? logTicks(scale.range, most) : linearTicks(scale.range, most);
}

function logTicks([low, high]: Range, most: number): number[] {
  const first = Math.floor(Math.log10(low));
  const decades = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, i) => 10 ** (first + i));
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = decades.flatMap((decade) => steps.map((step) => step * decade)).filter((tick) => tick >= low && tick <= high);
    if (ticks.length <= most || steps.length === 1) return ticks.length > 1 ? ticks : linearTicks([low, high], most);
  }
  return [];
}

export function linearTicks([low, high]: Range, most: number): number[] {
  const rough = (high - low) / Math.max(1, most);
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * decade).find((candidate) => candidate >= rough)!;
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step); tick * step <= high * (1 + 1e-9); tick++) ticks.push(tick * step || 0);
  return ticks;
}

/** A range with some air around the values, so that no point lies on an edge. */
export function around(values: number[], log: boolean): Range {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (log) {
    const air = Math.max(1.08, (high / low) ** 0.06);
    return [low / air, high * air];
  }
  const air = (high - low || high || 1) * 0.06;
  return [low - air < 0 && low >= 0 ? 0 : low - air, high + air];
}

/** Those of the values whose places are far enough apart. */
export function spaced<T>(values: T[], place: (value: T) => number, apart: number): T[] {
  const kept: T[] = [];
  for (const value of values) {
    if (kept.length === 0 || Math.abs(place(value) - place(kept.at(-1)!)) >= apart) kept.push(value);
  }
  return kept;
}

const paths: Record<Shape, string> = {
  circle: "M-3.8 0a3.8 3.8 0 1 0 7.6 0a3.8 3.8 0 1 0-7.6 0Z",
  square: "M-3.4-3.4H3.4V3.4H-3.4Z",
  triangle: "M0-4.6L4.3 3.2H-4.3Z",
  diamond: "M0-4.7L4.7 0L0 4.7L-4.7 0Z",
  left: "M-6 0L4-5.5V5.5Z",
  right: "M6 0L-4-5.5V5.5Z",
};

interface MarkProps {
  shape: Shape;
  colour: string; // the name of a CSS variable
  hollow?: boolean; // the value is not certain
  x?: number | string;
  y?: number | string;
}

/** The mark of a point. */
export function Mark({ shape, colour, hollow = false, x = 0, y = 0 }: MarkProps) {
  return (
    <svg x={x} y={y} class={`mark ${shape}`} overflow="visible">
      <path d={paths[shape]} stroke={`var(${colour})`} stroke-width="1.6" fill={hollow ? "var(--raised)" : `var(${colour})`} />
    </svg>
  );
}

interface IntervalProps {
  from: [x: number | string, y: number | string];
  to: [x: number | string, y: number | string];
  colour: string;
  upright?: boolean;
  open?: [from: boolean, to: boolean]; // it goes on beyond this end
}

/** An interval as a line with ends, or with an arrow where it goes on. */
export function Interval({ from, to, colour, upright = false, open = [false, false] }: IntervalProps) {
  const end = ([x, y]: typeof from, goesOn: boolean, way: number) => (
    <svg x={x} y={y} overflow="visible">
      <path d={goesOn ? `M${6 * way} 0L0-4V4Z` : upright ? "M-4 0H4" : "M0-4V4"} stroke={`var(${colour})`} fill={`var(${colour})`} stroke-width="1.6" />
    </svg>
  );
  return (
    <g class="whisker" opacity="0.7">
      <line x1={from[0]} y1={from[1]} x2={to[0]} y2={to[1]} stroke={`var(${colour})`} stroke-width="1.6" />
      {end(from, open[0], -1)}{end(to, open[1], 1)}
    </g>
  );
}

/** A short piece of a line, as it stands in the charts, or its mark alone. */
export function Swatch({ look, apart = false }: { look: Look; apart?: boolean }) {
  return (
    <svg class="swatch" width="26" height="12" viewBox="-13 -6 26 12" aria-hidden="true">
      {!apart && <line x1="-12" x2="12" y1="0" y2="0" stroke={`var(${look.colour})`} stroke-width="2" stroke-dasharray={look.dash.join(" ")} />}
      <Mark shape={look.shape} colour={look.colour} />
    </svg>
  );
}
