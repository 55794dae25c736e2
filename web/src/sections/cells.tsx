// All cells, and what of them is shown.

import { useMemo, useState } from "preact/hooks";
import { Choice, Filter } from "../controls";
import { distinct, type Cell, type Run } from "../data";
import { bytes, plain, sizes as sizesOf } from "../format";
import type { Look } from "../look";
import type { Clock } from "../metrics";
import { CellTable, type Figures } from "../table";
import { clockNames, counted } from "../words";

interface Props {
  run: Run;
  looks: Map<string, Look>;
  picked: Set<string>;
  pick: (key: string) => void;
}

export function Cells({ run, looks, picked, pick }: Props) {
  const [parts, setParts] = useState(new Set<string>());
  const [variants, setVariants] = useState(new Set<string>());
  const [sizes, setSizes] = useState(new Set<number>());
  const [clients, setClients] = useState(new Set<number>());
  const [clock, setClock] = useState<Clock>("response_us");
  const [figures, setFigures] = useState<Figures>("main");
  const shown = useMemo(
    () => run.cells.filter((cell) => !parts.has(cell.part) && !variants.has(cell.variant) && !sizes.has(cell.request_bytes) && !clients.has(cell.clients)),
    [parts, variants, sizes, clients],
  );
  const apart = run.cells.some((cell) => cell.response_apart);
  return (
    <section id="cells">
      <h2>Cells</h2>
      <p class="note">
        A row a point of the matrix, over its valid trials: percentiles are those of all their requests together, and a dash where fewer than ten lie beyond; other figures are the median of the trials. {apart ? "Response time is from the instant a request was meant to go out, service time from its actual send." : "Latency is from the send to the answer; in a closed loop that is the response time too."} Open a row for its trials, its intervals and what the checks found; tick it to see its percentiles.
      </p>
      <div class="choices">
        <Filter label="Part" options={distinct(run.cells.map((cell) => cell.part))} left={parts} change={setParts} />
        <Filter label="Stack" options={distinct(run.cells.map((cell) => cell.variant))} left={variants} change={setVariants} />
        <Filter label="Size" options={distinct(run.cells.map((cell) => cell.request_bytes))} left={sizes} show={bytes} change={setSizes} />
        <Filter label="Clients" options={distinct(run.cells.map((cell) => cell.clients))} left={clients} show={plain} change={setClients} />
        {apart && <Choice label="Time" options={["response_us", "service_us"] as Clock[]} chosen={clock} show={(name) => clockNames[name]} choose={setClock} />}
        <Choice label="Figures" options={["main", "all"] as Figures[]} chosen={figures} show={(name) => ({ main: "The main ones", all: "All" })[name]} choose={setFigures} />
      </div>
      <CellTable cells={shown} looks={looks} clock={clock} figures={figures} picked={picked} pick={pick} />
      <p class="note">{shown.length === run.cells.length ? counted(shown.length, "cell") : `${shown.length} of ${counted(run.cells.length, "cell")}`}{common(shown)}</p>
    </section>
  );
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
