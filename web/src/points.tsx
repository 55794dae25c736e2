// One point of the matrix: what variants are held against each other. The page's filter chooses it.

import { distinct, type Cell } from "./data";
import { absent, plain, sizes } from "./format";

export interface AtPoint {
  cells: Cell[];
  where: preact.ComponentChildren; // which of several points it is
  text: string; // where it is
  size: string;
}

/** The cells of one point of those that the filter lets through: where most is asked of a stack. */
export function pointOf(cells: Cell[], usualPart?: string): AtPoint {
  const sizeOf = (cell: Cell) => sizes(cell.request_bytes, cell.response_bytes);
  const part = cells.some((cell) => cell.part === usualPart) ? usualPart : cells[0]?.part;
  const inPart = cells.filter((cell) => cell.part === part);
  const size = inPart[0] ? sizeOf(inPart[0]) : "";
  const clients = distinct(inPart.filter((cell) => sizeOf(cell) === size).map((cell) => cell.clients)).at(-1);
  const there = inPart.filter((cell) => sizeOf(cell) === size && cell.clients === clients);
  const text = [`${plain(clients)} client${clients === 1 ? "" : "s"}`, size !== absent && `${size} messages`].filter(Boolean).join(", ");
  const parts = new Set(cells.map((cell) => cell.part)).size > 1;
  const several = new Set(cells.map((cell) => `${cell.part} ${sizeOf(cell)} ${cell.clients}`)).size > 1;
  return { cells: there, text, size, where: several && <Where text={`${parts ? `${part}, ` : ""}${text}`} /> };
}

/** Which point is shown. */
export function Where({ text }: { text: string }) {
  return <p class="note where">Shown: {text}. <a href="#filter">Choose another</a></p>;
}
