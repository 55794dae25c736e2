// One point of the matrix at a time: what variants are held against each other.

import { useState } from "preact/hooks";
import { Choice } from "./controls";
import { distinct, type Cell } from "./data";
import { absent, plain, sizes } from "./format";

export interface AtPoint {
  cells: Cell[];
  choices: preact.ComponentChildren;
  text: string; // where it is
  size: string;
}

/** The cells of one point, and the choices that lead to others. It begins where most is asked of a stack. */
export function usePoint(cells: Cell[], usualPart?: string): AtPoint {
  const sizeOf = (cell: Cell) => sizes(cell.request_bytes, cell.response_bytes);
  const [wanted, setWanted] = useState<{ part?: string; size?: string; clients?: number }>({});
  const oneOf = <T,>(options: T[], choice: T | undefined, usual: T | undefined) => (choice !== undefined && options.includes(choice) ? choice : usual);

  const parts = distinct(cells.map((cell) => cell.part));
  const part = oneOf(parts, wanted.part, oneOf(parts, usualPart, parts[0]));
  const inPart = cells.filter((cell) => cell.part === part);
  const all = distinct(inPart.map(sizeOf));
  const size = oneOf(all, wanted.size, all[0]);
  const ofSize = inPart.filter((cell) => sizeOf(cell) === size);
  const counts = distinct(ofSize.map((cell) => cell.clients));
  const clients = oneOf(counts, wanted.clients, counts.at(-1));
  const choices = (
    <div class="choices">
      <Choice label="Part" options={parts} chosen={part ?? ""} choose={(next) => setWanted({ ...wanted, part: next })} />
      <Choice label="Message size" options={all} chosen={size ?? ""} choose={(next) => setWanted({ ...wanted, size: next })} />
      <Choice label="Clients" options={counts} chosen={clients ?? 0} show={plain} choose={(next) => setWanted({ ...wanted, clients: next })} />
    </div>
  );
  return {
    cells: ofSize.filter((cell) => cell.clients === clients),
    choices,
    size: size ?? "",
    text: [`${plain(clients)} client${clients === 1 ? "" : "s"}`, size !== absent && `${size} messages`].filter(Boolean).join(", "),
  };
}
