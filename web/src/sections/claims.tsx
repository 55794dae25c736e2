// What was claimed elsewhere, and what this run says to it.

import type { Claim, Run } from "../data";
import { Figure } from "../figure";
import { micros, percent, perSecond, plain, times } from "../format";

const figures: Record<string, string> = {
  mean: "mean time",
  cpu: "CPU, both ends",
  "client-cpu": "CPU, client",
  "server-cpu": "CPU, server",
  throughput: "throughput",
  p99: "P99",
  "client-user": "user share of CPU, client",
  "server-user": "user share of CPU, server",
  "client-switches": "switches a request, client",
  "server-switches": "switches a request, server",
  "client-futex": "futex calls a request, client",
  "server-futex": "futex calls a request, server",
};

export function Claims({ run: { claims } }: { run: Run }) {
  if (claims.length === 0) return null;
  return (
    <section id="claims">
      <h2>What is claimed</h2>
      <p class="note">Each claim is judged in one part, with its fewest clients, over paired repeats. Compatible: the effect is as large as is claimed, or larger. Smaller: there is an effect, and it is smaller. Refuted: there is none, or the reverse. Underpowered: these trials cannot tell. The whole interval must speak for an outcome, corrected for the number of claims; what is within the margin counts as equal.</p>
      <div class="scroll">
        <table class="claims">
          <thead>
            <tr>
              <th scope="col">Row</th>
              <th scope="col">Claim</th>
              <th scope="col">Here</th>
              <th scope="col" class="number">Claimed</th>
              <th scope="col" class="number">Measured</th>
              <th scope="col">Of, over</th>
              <th scope="col">By, in</th>
              <th scope="col" class="number">Pairs</th>
            </tr>
          </thead>
          <tbody>
            {claims.map((claim) => (
              <tr key={claim.says} class={claim.outcome === "not measured" ? "faint" : ""}>
                <td>{claim.row || "–"}</td>
                <th scope="row" class="prose">{claim.says}</th>
                <td><span class={`outcome ${claim.outcome.replaceAll(" ", "-")}`}>{claim.outcome}</span></td>
                <td class="number">{claimed(claim)}</td>
                <Figure value={claim.ratio} interval={claim.intervals["ratio"]} show={times} />
                <td>
                  <Side name={claim.of} value={amount(claim, claim.of_figure)} />
                  <Side name={claim.against} value={amount(claim, claim.against_figure)} />
                </td>
                <td>
                  {figures[claim.figure]}
                  <small class="interval">{claim.part}{claim.below && ` over ${claim.below}`}</small>
                </td>
                <td class="number">{plain(claim.pairs)}{claim.needed_pairs !== null && <small class="interval">of about {plain(claim.needed_pairs)}</small>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Side({ name, value }: { name: string; value: string }) {
  return <div>{name} <small>{value}</small></div>;
}

function claimed({ claimed_ratio: ratio }: Claim): string {
  if (ratio === null) return "below 1×";
  return `${ratio < 1 ? "≤" : "≥"} ${Number(ratio.toPrecision(3))}×`;
}

function amount(claim: Claim, value: number | null): string {
  if (claim.figure === "throughput") return perSecond(value);
  if (/-(switches|futex)$/.test(claim.figure)) return plain(value);
  if (/-user$/.test(claim.figure)) return percent(value);
  return micros(value);
}
