// How a stack looks, the same in every report: its place in the program's list
// gives its colour and the shape of its points; its variants differ by their dashes.
// Where there are more of them than dashes, or no other stack, they take the colours
// of stacks that are not there as well. A variant looks the same on the whole page.
// The colours are style.css's, chosen to stay apart for colour-blind readers in both
// themes.

export type Shape = "circle" | "square" | "triangle" | "diamond";

export interface Look {
  colour: string; // the name of a CSS variable
  dash: number[];
  shape: Shape;
}

const colours = 8;
const shapes: Shape[] = ["circle", "square", "triangle", "diamond"];
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

/** The look of each variant of a run, where these are the stacks of the program's list. */
export function looksOf(cells: { stack: string; variant: string }[], listed: string[]): Map<string, Look> {
  const stacks = [...new Set([...listed, ...cells.map((cell) => cell.stack)])];
  const variants = new Map<string, string[]>();
  for (const { stack, variant } of cells) {
    const seen = variants.get(stack) ?? [stack];
    if (!seen.includes(variant)) seen.push(variant);
    variants.set(stack, seen);
  }
  const used = new Set([...variants.keys()].map((stack) => stacks.indexOf(stack) % colours));
  const free = Array.from({ length: colours }, (_, colour) => colour).filter((colour) => !used.has(colour));
  const looks = new Map<string, Look>();
  for (const { stack, variant } of cells) {
    const place = stacks.indexOf(stack);
    const own = variants.get(stack)!;
    const variation = own.indexOf(variant);
    const palette = [place % colours, ...(own.length > dashes.length || variants.size === 1 ? free : [])];
    // What comes round to a colour or a dash again has another shape.
    const around = Math.floor(variation / palette.length);
    const round = Math.floor(place / colours) + Math.floor(around / dashes.length) + (palette.length > 1 ? variation : 0);
    looks.set(variant, {
      colour: `--stack-${palette[variation % palette.length]}`,
      shape: shapes[(place + round) % shapes.length]!,
      dash: dashOf(around),
    });
  }
  return looks;
}

export function dashOf(place: number): number[] {
  return dashes[place % dashes.length]!;
}
