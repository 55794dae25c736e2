// What was claimed elsewhere, and what this run says to it.

import { Head, Scroll } from "../export";
import type { Claim, ClaimFigure, Run } from "../data";
import { Figure } from "../figure";
import { bytes, micros, percent, perSecond, plain, times } from "../format";
import { Claimed } from "./claimed";

export function Claims({ run: { claims } }: { run: Run }) {
  if (claims.length === 0) return null;
  return (
    <section id="claims">
      <h2>What is claimed</h2>
      <p class="note">Each claim has one interval, computed from its value in each repeat and corrected for the number of claims. The verdict follows from this interval. Compatible: the effect is as large as claimed. Larger: it is larger. Smaller: there is an effect, and it is smaller. Not seen: it is smaller than claimed, and perhaps there is none. Refuted: there is none, or the value is out of bounds. Reversed: there is the opposite effect. Not put to the test: the figures say nothing about the claim. Underpowered: more repeats are needed. Refused: the figures were measured, but checks refused them.</p>
      {claims.some((claim) => claim.row) && <p class="note">A row such as K12 is the study's letter with the number of a finding: K kernel study, F fast gRPC, C client bottleneck, U users API, Q connection lifecycle.</p>}
      <Claimed claims={claims} />
      <Scroll name="Claims">
        <table class="claims">
          <Head titles={["Claim", "Row", "Verdict", "#Claimed", "#Here", "From", "#Repeats"]} />
          <tbody>
            {claims.map((claim) => (
              <tr key={claim.says} class={claim.outcome === "not measured" ? "faint" : ""}>
                <th scope="row" class="prose">
                  {claim.says}
                  {claim.but && <small class="interval">But {claim.but}</small>}
                </th>
                <td>{claim.row || "–"}</td>
                <td>
                  <span class={`outcome ${claim.outcome.replaceAll(" ", "-")}`}>{claim.outcome}</span>
                  {claim.reason && <small class="interval">{claim.reason}</small>}
                </td>
                <td class="number">{claimed(claim)}</td>
                <Figure value={claim.ratio} interval={claim.intervals["ratio"]} show={claim.at_least ?? claim.at_most ? plain : times} />
                <td class="prose"><From claim={claim} /></td>
                <td class="number">{plain(claim.pairs)}{claim.needed_pairs !== null && <small class="interval">of about {plain(claim.needed_pairs)}</small>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

// The most figures that are shown without asking.
const few = 4;

function From({ claim }: { claim: Claim }) {
  const figures = claim.figures.map((figure, i) => <FigureOf key={i} figure={figure} />);
  return (
    <>
      {figures.length <= few ? figures : <details><summary>{figures.length} figures</summary>{figures}</details>}
      <details><summary>Expression</summary><code>{claim.find}</code> in {claim.part}</details>
    </>
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
