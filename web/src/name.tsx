import type { Cell } from "./data";
import type { Look } from "./look";
import { Swatch } from "./marks";
import { modeBeside } from "./words";

/** A long name that breaks after its punctuation, and not within a word. */
export function breakable(name: string) {
  return name.split(/(?<=[/,:])/).map((part, i) => <>{i > 0 && <wbr />}{part}</>);
}

/** The head of a cell's row: its variant, over which connections, and whether it may be believed. */
export function Name({ cell, looks }: { cell: Cell; looks: Map<string, Look> }) {
  return <><Swatch look={looks.get(cell.variant)!} /> {breakable(cell.variant)} <small>{modeBeside(cell)}</small>{!cell.valid && <b class="badge">invalid</b>}</>;
}

interface VariantProps {
  cells: Cell[];
  part: string;
  name: string;
}

/** A variant, with the connection mode that it had in its part where it does not say it itself. */
export function Variant({ cells, part, name }: VariantProps) {
  const cell = cells.find((candidate) => candidate.part === part && candidate.variant === name);
  const mode = cell && modeBeside(cell);
  return <>{name}{mode && <small> {mode}</small>}</>;
}
