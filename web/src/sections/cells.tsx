// All cells, and what of them is shown.

import { useKept, useKeptChoice } from "../address";
import { Choice } from "../controls";
import { type Cell, type Run, variantTitle } from "../data";
import { sizes as sizesOf } from "../format";
import type { Look } from "../look";
import type { Clock } from "../metrics";
import { CellTable, type Figures } from "../table";
import { counted, loadText } from "../words";

interface Props {
  run: Run;
  looks: Map<string, Look>;
  picked: Set<string>;
  pick: ((key: string) => void) | null; // null: there are no curves to pick for
}

export function Cells({ run, looks, picked, pick }: Props) {
  const [[find = ""], setFind] = useKept("find");
  const [clock] = useKeptChoice<Clock>("time", ["response_us", "service_us"]);
  const [figures, setFigures] = useKeptChoice<Figures>("figures", ["main", "all"]);
  const shown = run.cells.filter((cell) => matches(cell, find));
  const apart = run.cells.some((cell) => cell.response_apart);
  return (
    <section id="cells">
      <h2>{pick ? "Cells" : "All figures"}</h2>
      <p class="note">One row per {pick ? "point of the matrix" : "call and number of clients"}. Open a row for its trials, its intervals and what the checks found{pick ? "; tick it to see its percentiles." : "."}</p>
      <details>
        <summary>How the figures are computed</summary>
        <p class="note">Percentiles are over all requests of its valid trials, with a dash if fewer than ten requests were slower; the mean, throughput and CPU time are the geometric mean of the trials, as their ratios are; other figures are the median of the trials. {apart ? "Response time begins when a request was due, service time when it was sent." : "Latency is the time from sending a request to its answer; in a closed loop the response time is the same."} “±” is half of the 95 % interval of the mean; “Proven best” names the figures in which a cell certainly beats all others of its point.</p>
      </details>
      <div class="choices">
        {run.cells.length > 1 && <label class="choice">
          <span class="title">Find</span>
          <input type="search" value={find} placeholder={variantTitle === "Stack" ? "a stack, a part, a size" : "a call, clients"} onInput={(event) => setFind(event.currentTarget.value ? [event.currentTarget.value] : [])} />
        </label>}
        <Choice label="Figures" options={["main", "all"] as Figures[]} chosen={figures} show={(name) => ({ main: "The main ones", all: "All" })[name]} choose={setFigures} />
      </div>
      <CellTable run={run} cells={shown} looks={looks} clock={clock} figures={figures} picked={picked} pick={pick} />
      <p class="note">{shown.length === run.cells.length ? counted(shown.length, "row") : `${shown.length} of ${counted(run.cells.length, "row")}`}{common(shown)}</p>
    </section>
  );
}

/** Whether a cell's names have each of the words. */
function matches(cell: Cell, words: string): boolean {
  const names = [cell.variant, cell.part, cell.workload, sizesOf(cell.request_bytes, cell.response_bytes), counted(cell.clients, "client"), cell.connection, loadText(cell.load)].join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => names.includes(word));
}

/** What has no column, since all cells have it. */
function common(cells: Cell[]): string {
  const [first] = cells;
  if (!first) return "";
  const alike = (of: (cell: Cell) => unknown) => cells.every((cell) => of(cell) === of(first));
  const texts = [
    first.request_bytes + first.response_bytes > 0 && alike((cell) => `${cell.request_bytes} ${cell.response_bytes}`) && sizesOf(first.request_bytes, first.response_bytes),
    alike((cell) => cell.clients) && counted(first.clients, "client"),
  ].filter(Boolean);
  return texts.length > 0 ? `, all with ${texts.join(" and ")}` : "";
}
