// What each choice of an option changes: two variants of a stack that differ in
// nothing else.

import { Table } from "../export";
import { type Cell, type Contrast, type Effect, type Run, variantTitle } from "../data";
import { Figured } from "../figure";
import { times } from "../format";
import { pointOf } from "../points";

const chosen = (run: Run) => run.contrasts.filter(({ option }) => option !== "conn");
const isAt = (contrast: Contrast, cell: Cell) =>
  cell.part === contrast.part && cell.variant === contrast.changed && cell.clients === contrast.clients && cell.request_bytes === contrast.request_bytes && cell.response_bytes === contrast.response_bytes;

/** Whether options were contrasted. The connection mode has its own section. */
export function hasChoices(run: Run): boolean {
  return chosen(run).length > 0;
}

/** The contrasts whose changed variant is one of the cells. */
export function contrastsAt(run: Run, cells: Cell[]): Contrast[] {
  return run.contrasts.filter((contrast) => cells.some((cell) => isAt(contrast, cell)));
}

export function Choices({ run }: { run: Run }) {
  const all = chosen(run);
  const point = pointOf(run.cells.filter((cell) => all.some((contrast) => isAt(contrast, cell))));
  if (all.length === 0) return null;
  return (
    <section id="choices">
      <h2>What each choice costs</h2>
      <p class="note">Each ratio compares two variants that differ only in this option: the changed one divided by the default, with {point.text}. CPU is the sum of client and server.</p>
      {point.where}
      <Contrasts run={run} contrasts={contrastsAt(run, point.cells).filter(({ option }) => option !== "conn")} />
    </section>
  );
}

const effectNames: [string, string][] = [["cpu", "CPU"], ["handshake", "Handshake"], ["first-byte", "First byte"], ["throughput", "Throughput"], ["p99", "P99"], ["server-peak", "Server memory"]];

/** The figures of each contrast, side by side. */
export function Contrasts({ run, contrasts }: { run: Run; contrasts: Contrast[] }) {
  const shown = effectNames.filter(([metric]) => contrasts.some(({ effects }) => effects.some((effect) => effect.metric === metric)));
  return (
    <Table name="Contrasts" tall class="contrasts" titles={[variantTitle, "Choice", ...shown.map(([, title]) => `#${title}`)]} rows={contrasts.map((contrast) => ({
      key: `${contrast.base} ${contrast.changed}`, cells: [
        <span title={`${contrast.changed} over ${contrast.base}`}>{contrast.stack}{contrast.option !== "conn" && <small class="interval">{modeOf(contrast)}</small>}</span>,
        <>{contrast.to}<small class="interval">over {contrast.from}, {run.choices[contrast.option] ?? contrast.option}</small></>,
        ...shown.map(([metric]) => <EffectOf effect={contrast.effects.find((effect) => effect.metric === metric)} />),
      ],
    }))} />
  );
}

/** What else the base is set to. */
function modeOf({ base, stack }: Contrast): string {
  return base.slice(stack.length + 1);
}

function EffectOf({ effect }: { effect: Effect | undefined }) {
  if (!effect) return <span class="faint">–</span>;
  const { ratio, verdict, intervals: { ratio: interval } } = effect;
  return <span class={verdict === "undecided" || verdict === "equivalent" ? "faint" : ""} title={verdict}><Figured value={ratio} interval={interval} show={times} /></span>;
}
