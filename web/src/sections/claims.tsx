// What was claimed elsewhere, and what this run says to it.

import type { Claim, ClaimFigure, Run } from "../data";
import { counted } from "../words";
import { bytes, micros, percent, perSecond, plain, times } from "../format";
import { Claimed } from "./claimed";

export function Claims({ run: { claims } }: { run: Run }) {
  if (claims.length === 0) return null;
  return (
    <section id="claims">
      <h2>What is claimed</h2>
      <Strip claims={claims} />
      <details class="how">
        <summary>How claims are judged</summary>
      <p class="note">Each claim has one interval, computed from its value in each repeat and corrected for the number of claims. The verdict follows from this interval. Compatible: the effect is as large as claimed. Larger: it is larger. Smaller: there is an effect, and it is smaller. Not seen: it is smaller than claimed, and perhaps there is none. Refuted: there is none, or the value is out of bounds. Reversed: there is the opposite effect. Not put to the test: the figures say nothing about the claim. Underpowered: more repeats are needed. Refused: the figures were measured, but checks refused them.</p>
      {claims.some((claim) => claim.row) && <p class="note">A row such as K12 is the study's letter with the number of a finding: K kernel study, F fast gRPC, C client bottleneck, U users API, Q connection lifecycle.</p>}
      </details>
      <ol class="claims">{claims.map((claim) => <Sentence key={claim.says + claim.find} claim={claim} />)}</ol>
      <Claimed claims={claims} />
    </section>
  );
}

type Standing = "holds" | "larger" | "smaller" | "refuted" | "open";

const standings: Record<string, Standing> = { compatible: "holds", larger: "larger", smaller: "smaller", "not seen": "refuted", refuted: "refuted", reversed: "refuted" };
const standingOf = ({ outcome }: Claim): Standing => standings[outcome] ?? "open";

/** How many claims stand how, as a strip. */
function Strip({ claims }: { claims: Claim[] }) {
  const groups = [...Map.groupBy(claims, standingOf)].toSorted(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  return <div class="standings">{groups.map(([standing, { length }]) => <span key={standing} class={standing} style={{ flexGrow: length }}>{standing} {length}</span>)}</div>;
}

const order: Standing[] = ["holds", "larger", "smaller", "refuted", "open"];

/** A claim, and what this run says to it. */
function Sentence({ claim }: { claim: Claim }) {
  const interval = claim.intervals["ratio"];
  const show = (claim.at_least ?? claim.at_most) === null ? times : plain;
  const here = claim.ratio === null ? "no figure here" : `here ${show(claim.ratio)}${interval ? ` (${show(interval.low)} to ${show(interval.high)})` : ", without an interval"}`;
  const needed = claim.needed_pairs === null ? "" : ` of about ${plain(claim.needed_pairs)} that it needs`;
  return (
    <li>
      <b class={`outcome ${standingOf(claim)}`}>{claim.outcome}</b>: {claim.says}{claim.row && <small> {claim.row}</small>}
      <small class="interval">Claimed {claimed(claim)}, {here}, from {counted(claim.pairs, "repeat")}{needed}{claim.reason && `: ${claim.reason}`}.{claim.but && ` But ${claim.but}.`}</small>
      <details>
        <summary>Figures and expression</summary>
        {claim.figures.map((figure, i) => <FigureOf key={i} figure={figure} />)}
        <div><code>{claim.find}</code> in {claim.part}</div>
      </details>
    </li>
  );
}

function FigureOf({ figure }: { figure: ClaimFigure }) {
  const where = [figure.variant, ...(figure.request_bytes > 0 ? [bytes(figure.request_bytes)] : []), `c = ${plain(figure.clients)}`];
  return <div><small>{figure.figure.replace("-", " ")} of {where.join(", ")}: {amount(figure)}</small></div>;
}

const bases: Partial<Record<Claim["basis"], string>> = { inferred: " (inferred)", "own bounds": " (own bounds)", own: " (own)" };

function claimed(claim: Claim): string {
  return claimedNumber(claim) + (claim.row ? (bases[claim.basis] ?? "") : "");
}

function claimedNumber({ claimed_ratio: ratio, at_least: least, at_most: most }: Claim): string {
  const short = (value: number) => String(Number(value.toPrecision(3)));
  if (ratio !== null) return `${short(ratio)}×`;
  if (least !== null && most !== null) return `${short(least)} to ${short(most)}`;
  if (least !== null) return `≥ ${short(least)}`;
  if (most !== null) return `≤ ${short(most)}`;
  return "> 1×";
}

function amount({ figure, value }: ClaimFigure): string {
  if (figure === "throughput") return perSecond(value);
  if (/bytes|memory/.test(figure)) return bytes(value);
  if (/-(user|gc)$|^answered$/.test(figure)) return percent(value);
  if (/switches|futex|faults|cores|opened|tail/.test(figure)) return plain(value);
  return micros(value);
}
