// The run that the page shows: the object of --json and what only the page
// needs. Its types are those of the Go code, in run.ts. No figure is computed
// here; cells are only chosen and put side by side.

import type { Cell, Run } from "./run";

export * from "./run";

/** The run that the page was written with. */
export function readRun(): Run {
  return JSON.parse(document.getElementById("run")!.textContent!) as Run;
}

/** The different values of a list, numbers ascending, texts as they come. */
export function distinct<T extends string | number>(values: T[]): T[] {
  const unique = [...new Set(values)];
  return typeof unique[0] === "number" ? (unique as number[]).sort((a, b) => a - b) as T[] : unique;
}

/**
 * A name for each cell that tells it from the others given: the variant, and
 * what else differs between cells of the same variant.
 */
export function namesOf(cells: Cell[], show: (cell: Cell) => string[]): Map<Cell, string> {
  const names = new Map<Cell, string>();
  for (const same of Map.groupBy(cells, (cell) => cell.variant).values()) {
    const texts = same.map(show);
    for (const [i, cell] of same.entries()) {
      const apart = texts[i]!.filter((text, place) => texts.some((other) => other[place] !== text));
      names.set(cell, [cell.variant, ...apart].join(" · "));
    }
  }
  return names;
}
