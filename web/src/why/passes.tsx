// How it was seen: what each probe cost, and what it could not see.

import { Scroll } from "../export";
import { Fragment } from "preact";
import { distinct, type Insight, type Pass } from "../data";
import { times } from "../format";

export function Passes({ insights }: { insights: Insight[] }) {
  const probes = distinct(insights.flatMap(({ passes }) => passes.map(({ probe }) => probe)));
  const passOf = (insight: Insight, probe: string) => insight.passes.find((pass) => pass.probe === probe);
  return (
    <Scroll name="Passes of the probes">
      <table class="passes">
        <thead>
          <tr>
            <th scope="col" rowSpan={2}>Probe</th>
            <th scope="col" rowSpan={2}>Method of the probe</th>
            <th scope="colgroup" colSpan={insights.length} class="group">Time of a call, divided by the time without the probe</th>
          </tr>
          <tr>{insights.map((insight) => <th scope="col" class="number" key={nameOf(insight, insights)}>{nameOf(insight, insights)}</th>)}</tr>
        </thead>
        <tbody>
          {probes.map((probe) => (
            <Fragment key={probe}>
              <tr>
                <th scope="row">{probe}</th>
                <td>{distinct(insights.flatMap((insight) => passOf(insight, probe)?.method || [])).join("; ") || "nothing was seen"}</td>
                {insights.map((insight) => <Cost key={nameOf(insight, insights)} insight={insight} pass={passOf(insight, probe)} />)}
              </tr>
              {missing(insights, probe).map(([text, of]) => (
                <tr key={text} class="missing">
                  <td />
                  <td colSpan={insights.length + 1}>Not measured{of.length < insights.length && ` (${of.map((insight) => nameOf(insight, insights)).join(", ")})`}: {text}.</td>
                </tr>
              ))}
            </Fragment>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** The variant, and how many clients it had where that tells it apart. */
function nameOf({ variant, clients }: Insight, among: Insight[]): string {
  return among.some((other) => other.variant === variant && other.clients !== clients) ? `${variant} c=${clients}` : variant;
}

function Cost({ insight, pass }: { insight: Insight; pass: Pass | undefined }) {
  if (!pass) return <td class="number faint">–</td>;
  const interval = pass.intervals["cost"];
  const cost = pass.cost ?? (pass.probe === "life" ? insight.life?.cost ?? null : null);
  return (
    <td class="number">
      {cost === null ? "not known" : times(cost)}
      {interval && <small class="interval">{times(interval.low)} to {times(interval.high)}</small>}
    </td>
  );
}

/** What a probe could not see, and the variants concerned. */
function missing(insights: Insight[], probe: string): [string, Insight[]][] {
  const all = insights.flatMap((insight) => insight.passes.filter((pass) => pass.probe === probe).flatMap((pass) => (pass.missing ?? []).map((text) => ({ text, insight }))));
  return [...Map.groupBy(all, ({ text }) => text)].map(([text, of]) => [text, of.map(({ insight }) => insight)]);
}
