// The highest rate that keeps the goal, how exactly it is known, and every rate that
// was tried on the way there.

import { Table } from "../export";
import { useMemo } from "preact/hooks";
import { Chart, type Axis, type Line, type Rule } from "../chart";
import { Choice, useLocal } from "../controls";
import { namesOf, type Cell, type Run, type Search, variantTitle } from "../data";
import { micros, perSecond, plain, sizes, withInterval } from "../format";
import { modeBeside } from "../words";

export const searched = (run: Run) => run.cells.filter((cell) => cell.search);

export function Searches({ run }: { run: Run }) {
  const cells = useMemo(() => searched(run), [run]);
  const names = useMemo(() => namesOf(cells, (cell) => [cell.part, modeBeside(cell), sizes(cell.request_bytes, cell.response_bytes), `${plain(cell.clients)} clients`, cell.load.goal ?? ""]), [run]);
  const [chosen, choose] = useLocal("cell", "");
  const cell = cells.find(({ key }) => key === chosen) ?? cells[0];
  const chart = useMemo(() => cell && chartOf(cell.search!), [cell]);
  if (!cell || !chart) return null;
  return (
    <section id="search">
      <h2>The highest rate that keeps the goal</h2>
      <p class="note">A rate counts as kept or missed when two of up to three tries agree. The rate that half of all tries keep shows how exact the result is.</p>
      <Table name="Highest rates" titles={[variantTitle, "Goal", "#Kept", "#Missed", "#Half of the tries keep the goal at", "~The knee"]} rows={cells.map((one) => ({
        key: one.key, className: one.valid ? "" : "invalid", cells: [
            <>{names.get(one)}{!one.valid && <b class="badge">invalid</b>}</>, one.load.goal,
            withInterval(one.search!.kept_rps, one.intervals["search.kept_rps"], perSecond),
            withInterval(one.search!.missed_rps, one.intervals["search.missed_rps"], perSecond),
            withInterval(one.search!.threshold_rps, one.intervals["search.threshold_rps"], perSecond), kneeText(one.search!),
        ],
      }))} />
      <div class="choices">
        <Choice label="Of" options={cells.map(({ key }) => key)} chosen={cell.key} show={(key) => names.get(cells.find((one) => one.key === key)!)!} choose={choose} />
      </div>
      <Chart title={`P${cell.search!.percentile} against the rate that was offered, ${names.get(cell)}`} note={noteOf(cell)} x={chart.x} y={chart.y} lines={chart.lines} rules={chart.rules} />
    </section>
  );
}

function kneeText({ knee }: Search): string {
  if (!knee.found) return `refused: ${knee.reason}`;
  return `${perSecond(knee.rate_rps)} (${plain(knee.low_rps)} to ${perSecond(knee.high_rps)})`;
}

function noteOf({ search }: Cell): string {
  const texts = ["Dashed: the limit, and the knee."];
  if (search!.why) texts.push(`The search ended before kept and missed rates were close: ${search!.why}.`);
  return texts.join(" ");
}

function chartOf(search: Search): { x: Axis; y: Axis; lines: Line[]; rules: Rule[] } {
  const tried = search.steps.filter((step) => step.figure_us !== null);
  const rates = tried.map((step) => step.offered_rps);
  const points = (kept: boolean) => tried.filter((step) => step.kept === kept).map((step) => ({ x: step.offered_rps, y: step.figure_us! }));
  const lines: Line[] = [
    { name: "kept", look: { colour: "--layer-2", dash: [], shape: "circle" }, points: points(true), apart: true },
    { name: "missed", look: { colour: "--bad", dash: [], shape: "triangle" }, points: points(false), apart: true },
    { name: "limit", look: { colour: "--muted", dash: [7, 4], shape: "square" }, points: [Math.min(...rates), Math.max(...rates)].map((x) => ({ x, y: search.limit_us })), thin: true, beside: true },
  ];
  const { knee } = search;
  return {
    lines,
    rules: knee.found ? [{ at: knee.rate_rps!, low: knee.low_rps!, high: knee.high_rps!, look: { colour: "--muted", dash: [], shape: "circle" }, text: "knee" }] : [],
    x: { label: "Rate offered", log: false, show: perSecond },
    y: { label: `P${search.percentile} of response time`, log: true, show: micros },
  };
}
