// How a frame differs between two profiles.

export interface Change {
  now: number; // of the unit, a call
  before: number;
  ratio: number; // infinite for what is new
  same: boolean; // but for what weights were rounded by
  sure: boolean; // the difference is more than what sampling leaves open
}

/** What a profile's figures were estimated from; 0 samples: they were counted. */
export interface Sampled {
  samples: number;
  per_call: number;
}

// Many frames are looked at, so two standard errors would find differences by chance.
export const standardErrors = 3;
const rounding = 1e-8; // of a whole profile

/** Compares one frame of two profiles, of whose samples each is taken to be seen or not by chance. */
export function changeOf(now: number, before: number, of: Sampled, against: Sampled): Change {
  const error = standardErrors * Math.hypot(errorOf(now, of), errorOf(before, against));
  const difference = Math.abs(now - before);
  const same = difference <= rounding * (of.per_call + against.per_call);
  return { now, before, ratio: now / before, same, sure: !same && difference > error };
}

function errorOf(value: number, { samples, per_call }: Sampled): number {
  if (samples === 0 || per_call === 0) return 0;
  const seen = (value / per_call) * samples;
  return (per_call / samples) * Math.sqrt(Math.max(1, seen));
}

/** The ratios from which on a change has a stronger colour. */
export const ratios = [1.05, 1.5, 3];

/** -3 to 3: how strongly something shrank or grew; 0 where it did not, or that is not sure. */
export function stepOf({ ratio, sure }: Change): number {
  if (!sure) return 0;
  const strength = ratios.filter((from) => Math.max(ratio, 1 / ratio) >= from).length;
  return ratio < 1 ? -strength : strength;
}
