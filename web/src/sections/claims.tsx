// What was claimed elsewhere, and what this run says to it.

import type { Claim, ClaimFactor, ClaimFigure, Run } from "../data";
import { Figure } from "../figure";
import { bytes, micros, percent, perSecond, plain, times } from "../format";
import { Claimed } from "./claimed";

export function Claims({ run: { claims } }: { run: Run }) {
  if (claims.length === 0) return null;
  return (
    <section id="claims">
      <h2>What is claimed</h2>
      <p class="note">Each claim is an expression over cells, computed once per repeat. Compatible: the effect is as large as claimed. Larger: it is certainly larger. Smaller: it is less than claimed, perhaps zero. Refuted: there is certainly no such effect, or the reverse one. Underpowered: these trials cannot tell. The whole interval, corrected for the number of claims, must support an outcome; differences within the margin count as equal.</p>
      <Claimed claims={claims} />
      <div class="scroll" tabIndex={0}>
        <table class="claims">
          <thead>
            <tr>
              <th scope="col">Row</th>
              <th scope="col">Claim</th>
              <th scope="col">Verdict</th>
              <th scope="col" class="number">Claimed</th>
              <th scope="col" class="number">Here</th>
              <th scope="col">From</th>
              <th scope="col" class="number">Repeats</th>
            </tr>
          </thead>
          <tbody>
            {claims.map((claim) => (
              <tr key={claim.says} class={claim.outcome === "not measured" ? "faint" : ""}>
                <td>{claim.row || "–"}</td>
                <th scope="row" class="prose">
                  {claim.says}
                  {claim.but && <small class="interval">But {claim.but}</small>}
                </th>
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
      </div>
    </section>
  );
}

// The most figures that are shown without asking.
const few = 4;

function From({ claim }: { claim: Claim }) {
  const figures = claim.figures.map((figure, i) => <FigureOf key={i} figure={figure} />);
  return (
    <>
      {claim.factors.length > 0 && <div class="factors">{claim.factors.map((factor) => <Factor key={factor.name} factor={factor} />)}</div>}
      {figures.length <= few ? figures : <details><summary>{figures.length} figures</summary>{figures}</details>}
      <small class="interval"><code>{claim.find}</code> in {claim.part}</small>
    </>
  );
}

const moves = { yes: "moves it", reverse: "makes it greater", no: "does not move it", unknown: "undecided" };

function Factor({ factor }: { factor: ClaimFactor }) {
  return <div title={factor.variant}>{factor.name} {times(factor.ratio)}: {moves[factor.moves]}</div>;
}

function FigureOf({ figure }: { figure: ClaimFigure }) {
  const where = [figure.variant, ...(figure.request_bytes > 0 ? [bytes(figure.request_bytes)] : []), `c = ${plain(figure.clients)}`];
  return <div><small>{figure.figure.replace("-", " ")} of {where.join(", ")}: {amount(figure)}</small></div>;
}

function claimed({ claimed_ratio: ratio, at_least: least, at_most: most }: Claim): string {
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
