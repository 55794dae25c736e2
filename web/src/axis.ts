// Where the ticks of an axis stand.

export type Range = [low: number, high: number];

/** Round values between low and high on a logarithmic axis, at most the given number. */
export function logTicks([low, high]: Range, most: number): number[] {
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = decades(low, high).flatMap((decade) => steps.map((step) => step * decade)).filter((tick) => tick >= low && tick <= high);
    if (ticks.length <= most || steps.length === 1) return ticks.length > 1 ? ticks : linearTicks([low, high], most);
  }
  return [];
}

function decades(low: number, high: number): number[] {
  const first = Math.floor(Math.log10(low));
  return Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, i) => 10 ** (first + i));
}

/** Round values between low and high, at most the given number. */
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
  const low = Math.min(...values);
  const high = Math.max(...values);
  if (log) {
    const air = Math.max(1.08, (high / low) ** 0.06);
    return [low / air, high * air];
  }
  const air = (high - low || high || 1) * 0.06;
  return [low - air < 0 && low >= 0 ? 0 : low - air, high + air];
}

/** Those of the ticks that stand far enough apart to be read. */
export function spaced(ticks: number[], place: (tick: number) => number, apart: number): number[] {
  const kept: number[] = [];
  for (const tick of ticks) {
    if (kept.length === 0 || Math.abs(place(tick) - place(kept.at(-1)!)) >= apart) kept.push(tick);
  }
  return kept;
}
