// The run that the page shows: the object of --json and the data that only the page
// needs. run.ts has its types, which come from the Go code. No figure is computed
// here; cells are only chosen and put side by side.

import type { Cell, Insight, PackedProfile, Profiles, Run } from "./run";

export * from "./run";

/** What cells differ in first: stacks, or what services were asked. */
export let variantTitle = "Stack";

/** The run that the page was written with. A service is named by what it was asked. */
export function readRun(): Run {
  const text = document.getElementById("run")!.textContent!;
  const run = JSON.parse(text) as Run;
  const services = run.cells.filter((cell) => cell.said !== "");
  if (services.length === 0) return run;
  variantTitle = "Call";
  const names = new Map(services.flatMap((cell) => [[cell.variant, cell.said], [cell.key, cell.name]]));
  return JSON.parse(text, (_, value) => (typeof value === "string" ? (names.get(value) ?? value) : value)) as Run;
}

/** What names the cell of an insight or a profile. */
export function cellOf({ part, variant, workload, request_bytes, response_bytes, clients }: Insight | PackedProfile): string {
  return JSON.stringify([part, variant, workload, request_bytes, response_bytes, clients]);
}

/** The profiles of one end of a cell; the others are of slow and of median calls. */
export const ofEnds = ({ list }: Profiles) => list.filter(({ end }) => end !== "");

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

/** What is said of a variant, or of a first and a second one, at a point of the matrix. */
interface OfPoint {
  part: string;
  request_bytes: number;
  response_bytes: number;
  clients: number;
}

/** In the order of the cells that it is about, which is the scenario's. */
export function inOrder<T extends OfPoint>(cells: Cell[], items: T[], ...variants: ((item: T) => string)[]): T[] {
  const name = (of: OfPoint, variant: string) => JSON.stringify([of.part, variant, of.request_bytes, of.response_bytes, of.clients]);
  const places = new Map(cells.map((cell, place) => [name(cell, cell.variant), place] as const).reverse());
  const keys = new Map(items.map((item) => [item, variants.map((of) => places.get(name(item, of(item))) ?? cells.length)]));
  return items.toSorted((a, b) => {
    const [left, right] = [keys.get(a)!, keys.get(b)!];
    const apart = left.findIndex((place, i) => place !== right[i]);
    return apart < 0 ? 0 : left[apart]! - right[apart]!;
  });
}
