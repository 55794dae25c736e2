// What came out, and whether to believe it: the first thing that is read.

import type { Cell, Lead, Run } from "../data";
import { Forest, type Effect } from "../forest";
import { micros, percent, perSecond, plain, times } from "../format";
import { breakable } from "../name";
import { isService } from "../service/page";
import { counted } from "../words";

export function Verdict({ run }: { run: Run }) {
  const service = isService(run);
  // The facts of a single load are the figures of its first line.
  const alone = service && run.cells.length === 1 && run.cells[0]!.valid;
  const [answer, ...more] = alone ? ["", ...run.answer.slice(1)] : run.answer;
  const invalid = run.cells.filter((cell) => !cell.valid).length;
  return (
    <header class="verdict">
      <div class="product">
        <b>wirelab</b><span>{run.name}</span>{run.tool && <span>{build(run.tool)}</span>}
        <div>
          <a href="#glossary">Glossary</a>
          <button type="button" class="plain" onClick={() => print()}>Print one page</button>
          <button type="button" class="plain" onClick={printAll}>Print all</button>
        </div>
      </div>
      <h1>{breakable(run.title || run.name)}</h1>
      {run.question && !service && <p class="question">{run.question}</p>}
      {run.partial && (
        <p class="banner" role="status">
          <b>A partial run:</b> {run.trials.done} of {counted(run.trials.planned, "trial")} done{run.status !== "done" && `, ${run.status}`}. The missing trials may change the result.
        </p>
      )}
      {service && <Standing cells={run.cells} />}
      <div class={run.leads.length > 0 ? "graded" : ""}>
        <div>
          {!alone && <p class="answer">{answer ?? "These trials support no conclusion."}</p>}
          {more.length > 0 && <ul class="advice">{more.map((text) => <li key={text}>{text.startsWith("  ") ? <code>{text.trim()}</code> : text}</li>)}</ul>}
        </div>
        {run.leads.length > 0 && <div>{run.leads.slice(0, shownLeads).map((lead) => <Standings key={lead.clients.join()} lead={lead} several={run.leads.length > 1} />)}</div>}
      </div>
      {run.advice.length > 0 && !service && (
        <details class="further">
          <summary>In full: {counted(run.advice.length, "sentence")}</summary>
          <ul class="advice">{run.advice.map((text) => <li key={text}>{text}</li>)}</ul>
        </details>
      )}
      {!service && <dl class="facts">
        <Fact name="Trials" value={`${run.trials.done} of ${run.trials.planned}`} />
        <Fact name="Cells" value={String(run.cells.length)} />
        <Fact name="Invalid trials" value={String(run.trials.invalid)} bad={run.trials.invalid > 0} />
        {run.trials.failed > 0 && <Fact name="Failed trials" value={String(run.trials.failed)} bad />}
        {invalid > 0 && <Fact name="Cells without a figure" value={String(invalid)} bad />}
      </dl>}
      <p class="machine">{run.machine}</p>
      {run.warnings.length > 0 && !service && (
        <details class="warnings" open={run.warnings.length <= 3}>
          <summary>{counted(run.warnings.length, "warning")} about the whole run</summary>
          <ul>{run.warnings.map((text) => <li key={text}>{text}</li>)}</ul>
        </details>
      )}
    </header>
  );
}

/** The version; without one, the commit too. */
function build(tool: string): string {
  return tool.split(", ").slice(0, tool.startsWith("devel") ? 2 : 1).join(", ");
}

/** Prints the whole page with all that is folded; without it, one page is printed. */
function printAll(): void {
  const folded = [...document.querySelectorAll<HTMLDetailsElement>("main details:not([open])")];
  document.documentElement.classList.add("print-all");
  folded.forEach((details) => (details.open = true));
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("print-all");
    folded.forEach((details) => (details.open = false));
  }, { once: true });
  setTimeout(print, 300); // the charts have learnt their width by then
}

const shownLeads = 3;

/** How much longer the other stacks take than the leading one, over the points of a lead. */
function Standings({ lead, several }: { lead: Lead; several: boolean }) {
  const leader = lead.variants[0]!;
  // At one point each interval stands for itself. Over several, the leader was chosen by the same figures.
  const proves = lead.grade === "certain" || lead.points === 1;
  const effects = lead.standings.filter(({ ratio }) => ratio !== null).map(({ variant, ratio, least, most, intervals }): Effect => {
    const over = intervals.ratio;
    const side = proves && over && over.low > 1 ? "above" : "open"; // an open mark is hollow
    const note = lead.points > 1 ? `${times(least)} to ${times(most)} at ${counted(lead.points, "point")}` : over ? undefined : "no interval";
    return { key: variant, name: breakable(variant), note, ratio: ratio!, low: over?.low, high: over?.high, side, word: "" };
  });
  const where = several ? `, with ${lead.clients.slice(0, -1).map((n) => `${n}, `).join("")}${counted(lead.clients.at(-1)!, "client")}` : "";
  return <Forest title={`Mean time compared with ${leader}${where}`} subject="Stack" below="faster" above="slower" effects={effects} few={8} gap={24} heading="h2" />;
}

/** What one load of a service came to; several have a table. */
function Standing({ cells }: { cells: Cell[] }) {
  const [cell] = cells;
  if (!cell || cells.length > 1) return null;
  const failed = cell.survival.requests - cell.survival.succeeded;
  return (
    <dl class="facts">
      <Fact name="Answered well" value={perSecond(cell.throughput_rps)} />
      <Fact name={cell.streams ? "Messages" : "Requests"} value={plain(cell.survival.requests)} />
      <Fact name="Failed" value={failed === 0 ? "none" : `${plain(failed)} (${percent(failed / cell.survival.requests)})`} bad={failed > 0} />
      <Fact name="P50" value={micros(cell.response_us.p50)} />
      {cell.response_us.p90 !== null && <Fact name="P90" value={micros(cell.response_us.p90)} />}
      {cell.response_us.p99 !== null && <Fact name="P99" value={micros(cell.response_us.p99)} />}
      <Fact name="Slowest" value={micros(cell.response_us.max)} />
      {cell.client_cpu_us !== null && <Fact name="CPU, client" value={micros(cell.client_cpu_us)} />}
      {cell.server_cpu_us !== null && <Fact name="CPU, service" value={micros(cell.server_cpu_us)} />}
    </dl>
  );
}

function Fact({ name, value, bad = false }: { name: string; value: string; bad?: boolean }) {
  return (
    <div class={bad ? "bad" : ""}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
