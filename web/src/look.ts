// How a stack looks, the same in every report: its place in the program's list
// gives its colour and the shape of its points; its variants differ by their dashes.
// Where there are more of them than dashes, or no other stack, they take the colours
// of stacks that are not there as well: those that stand least in the same parts. A
// variant looks the same on the whole page.
// The colours are style.css's, chosen to stay apart for colour-blind readers in both
// themes.

import { distinct } from "./data";

export type Shape = "circle" | "square" | "triangle" | "diamond" | "left" | "right";

export interface Look {
  colour: string; // the name of a CSS variable
  dash: number[];
  shape: Shape;
}

const colours = 8;
const shapes: Shape[] = ["circle", "square", "triangle", "diamond"];
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

/** The look of each variant of a run, where these are the stacks of the program's list. */
export function looksOf(cells: { stack: string; variant: string; part: string }[], listed: string[]): Map<string, Look> {
  const stacks = [...new Set([...listed, ...cells.map((cell) => cell.stack)])];
  const byStack = Map.groupBy(cells, (cell) => cell.stack);
  const own = (stack: string) => stacks.indexOf(stack) % colours;
  const used = new Set([...byStack.keys()].map(own));
  const free = Array.from({ length: colours }, (_, colour) => colour).filter((colour) => !used.has(colour));
  const looks = new Map<string, Look>();
  const taken = new Map<string, number>(); // of a colour in a part, or by a stack: by how many variants
  const count = (key: string) => taken.get(key) ?? 0;
  // A stack as it comes has its own colour, so it goes first.
  const variants = [...Map.groupBy(cells, (cell) => cell.variant)].toSorted(([a, [of]], [b, [other]]) => Number(b === other!.stack) - Number(a === of!.stack));
  for (const [variant, same] of variants) {
    const { stack } = same[0]!;
    const many = new Set(byStack.get(stack)!.map((cell) => cell.variant)).size > dashes.length || byStack.size === 1;
    const palette = [own(stack), ...(many ? free : [])];
    const parts = distinct(same.map((cell) => cell.part));
    const crowd = (colour: number) => parts.reduce((sum, part) => sum + count(`${part} ${colour}`), 0);
    const colour = palette.reduce((best, next) => (crowd(next) < crowd(best) ? next : best));
    const before = count(`${colour} of ${stack}`);
    const place = stacks.indexOf(stack);
    looks.set(variant, {
      colour: `--stack-${colour}`,
      // What comes round to a colour or a dash again has another shape.
      shape: shapes[(place + Math.floor(place / colours) + palette.indexOf(colour) + Math.floor(before / dashes.length)) % shapes.length]!,
      dash: dashOf(before),
    });
    for (const key of [...parts.map((part) => `${part} ${colour}`), `${colour} of ${stack}`]) taken.set(key, count(key) + 1);
  }
  return looks;
}

export function dashOf(place: number): number[] {
  return dashes[place % dashes.length]!;
}
