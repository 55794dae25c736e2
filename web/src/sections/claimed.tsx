// What was claimed, as marks beside the intervals that were measured here.

import type { Claim } from "../data";
import { Forest, type Effect } from "../forest";

const few = 20;

export function Claimed({ claims }: { claims: Claim[] }) {
  // What is claimed to lie between bounds is no ratio.
  const effects = claims.filter((claim) => claim.ratio !== null && claim.ratio > 0 && claim.at_least === null && claim.at_most === null).map((claim): Effect => {
    const { low, high } = claim.intervals["ratio"] ?? {};
    return {
      key: `${claim.row} ${claim.says} ${claim.find}`,
      name: claim.says, note: claim.row,
      ratio: claim.ratio!, low, high, claimed: claim.claimed_ratio ?? undefined,
      side: low !== undefined && low > 1 ? "above" : high !== undefined && high < 1 ? "below" : "open",
      word: claim.outcome,
    };
  });
  if (effects.length === 0) return null;
  return (
    <Forest
      title="Claimed, and measured here" note="A claim is met if its mark lies within the interval, or between 1 and the interval. Claims that are not ratios are only in the table."
      subject="Claim" below="less" above="more" effects={effects} few={few}
    />
  );
}
