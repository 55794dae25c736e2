// Call stacks merged into the frames of a flame graph. A frame is a number; row 0
// holds frame 0 alone, which stands for everything, and each frame's callees lie side
// by side in the row beneath it, the heaviest first.
//
// The stacks are put into such an order that those of every frame are neighbours.
// So a frame is a range of stacks, and whatever a frame has, of time or of a category,
// is the difference of two running sums. Nothing is laid out again to zoom.

import type { Stacks } from "./stacks";

export class Tree {
  readonly depth: number; // rows with something to see: those beneath them are the other profile's
  private readonly nowSums: Float64Array; // of the first stacks, in their order
  private readonly beforeSums: Float64Array;
  private readonly categorySums: Float64Array[];
  private readonly mains: Int16Array; // of each frame the category that most of it is of; -1 where nobody asked yet

  private constructor(
    stacks: Stacks,
    order: Int32Array,
    readonly rows: number[], // the first frame of each row, and one behind the last
    readonly functions: Int32Array, // of each frame; -1 of frame 0
    readonly parents: Int32Array,
    private readonly from: Int32Array, // range of each frame's stacks in order
    private readonly to: Int32Array,
    private readonly own: Int32Array, // from where on they end in this frame
  ) {
    this.nowSums = running(stacks.now, order);
    this.beforeSums = running(stacks.before, order);
    this.categorySums = runningBy(stacks.category, stacks.now, order);
    this.mains = new Int16Array(functions.length).fill(-1);
    let depth = rows.length - 1;
    while (depth > 1 && !this.anyIn(depth - 1)) depth--;
    this.depth = depth;
  }

  /** Merges stacks from their outermost frames on, or from their innermost. */
  static merge(stacks: Stacks, functionCount: number, from: "outermost" | "innermost"): Tree {
    const merged = new Merge(stacks, functionCount, from === "innermost");
    return new Tree(stacks, merged.order, merged.rows, merged.functions, merged.parents, merged.from, merged.to, merged.own);
  }

  get count(): number { return this.rows.at(-1)!; }
  get total(): number { return this.now(0); }

  private anyIn(row: number): boolean {
    for (let frame = this.rows[row]!; frame < this.rows[row + 1]!; frame++) if (this.now(frame) > 0) return true;
    return false;
  }

  now(frame: number): number { return this.nowSums[this.to[frame]!]! - this.nowSums[this.from[frame]!]!; }
  before(frame: number): number { return this.beforeSums[this.to[frame]!]! - this.beforeSums[this.from[frame]!]!; }

  /** What is not in frames beneath: of the function itself or, merged from the innermost, of stacks that begin here. */
  self(frame: number): number { return this.nowSums[this.to[frame]!]! - this.nowSums[this.own[frame]!]!; }

  /** Where a frame begins and ends, of the total. */
  left(frame: number): number { return this.nowSums[this.from[frame]!]!; }
  right(frame: number): number { return this.nowSums[this.to[frame]!]!; }

  /** How much of a frame is of a category. */
  ofCategory(frame: number, category: number): number {
    const all = this.categorySums[category];
    return all ? all[this.to[frame]!]! - all[this.from[frame]!]! : 0;
  }

  /** The category that most of a frame is of. */
  mainCategory(frame: number): number {
    let main = this.mains[frame]!;
    if (main >= 0) return main;
    main = 0;
    for (let category = 1; category < this.categorySums.length; category++) {
      if (this.ofCategory(frame, category) > this.ofCategory(frame, main)) main = category;
    }
    return (this.mains[frame] = main);
  }

  rowOf(frame: number): number {
    return lastBelow(this.rows.length - 1, (row) => this.rows[row]! <= frame);
  }

  /** The widest frame beneath one. */
  calleeOf(frame: number): number | undefined {
    return this.self(frame) < this.now(frame) ? this.frameAt(this.rowOf(frame) + 1, this.left(frame)) : undefined;
  }

  /** The first frame of a row, from one on, that ends beyond a place; the row's end if none does. */
  firstBeyond(row: number, from: number, place: number): number {
    const end = this.rows[row + 1]!;
    return from + 1 + lastBelow(end - from, (i) => this.right(from + i) <= place);
  }

  frameAt(row: number, place: number): number | undefined {
    if (row < 0 || row >= this.depth) return undefined;
    const frame = this.firstBeyond(row, this.rows[row]!, place);
    return frame < this.rows[row + 1]! && this.left(frame) <= place ? frame : undefined;
  }

  /** The frames from the outermost to this one, without frame 0. */
  path(frame: number): number[] {
    const path = [];
    for (let at = frame; at > 0; at = this.parents[at]!) path.unshift(at);
    return path;
  }

  /** The frames that only the profile compared with has, without those beneath them; the largest first. */
  gone(most: number): number[] {
    const gone = [];
    for (let frame = 1; frame < this.count; frame++) {
      if (this.now(frame) === 0 && this.before(frame) > 0 && this.now(this.parents[frame]!) > 0) gone.push(frame);
    }
    return gone.sort((a, b) => this.before(b) - this.before(a)).slice(0, most);
  }
}

/** The last index below an end for which a condition holds that holds for the first ones only; -1 if for none. */
function lastBelow(end: number, holds: (index: number) => boolean): number {
  let low = -1;
  while (end - low > 1) {
    const middle = (low + end) >> 1;
    if (holds(middle)) low = middle;
    else end = middle;
  }
  return low;
}

function running(values: Float64Array, order: Int32Array): Float64Array {
  const all = new Float64Array(order.length + 1);
  for (let i = 0; i < order.length; i++) all[i + 1] = all[i]! + values[order[i]!]!;
  return all;
}

/** Running sums of each category. */
function runningBy(categories: Uint16Array, values: Float64Array, order: Int32Array): Float64Array[] {
  const count = categories.reduce((most, category) => Math.max(most, category + 1), 0);
  const all = Array.from({ length: count }, () => new Float64Array(order.length + 1));
  for (let i = 0; i < order.length; i++) {
    for (const sums of all) sums[i + 1] = sums[i]!;
    all[categories[order[i]!]!]![i + 1]! += values[order[i]!]!;
  }
  return all;
}

/**
 * Splits stacks by their first function, those of each function by their second, and
 * so on. It goes down each branch to its end, because the frames of a stack are
 * neighbours in memory, and puts the frames into rows when it has all of them.
 */
class Merge {
  readonly order: Int32Array;
  readonly rows: number[] = [];
  functions: Int32Array;
  parents: Int32Array;
  from: Int32Array;
  to: Int32Array;
  own: Int32Array;
  private readonly rowOf: Uint16Array;
  private count = 0;

  // Of the frame that is being split, by function.
  private readonly stacksOf: Int32Array;
  private readonly nowOf: Float64Array;
  private readonly beforeOf: Float64Array;
  private readonly place: Int32Array;
  private readonly next: Int32Array; // of each of its stacks the function, in their order
  private readonly moved: Int32Array;

  constructor(private readonly stacks: Stacks, functionCount: number, private readonly inverted: boolean) {
    const stackCount = stacks.now.length;
    const most = stacks.frames.length + 1; // memory that is never written to costs nothing
    this.order = new Int32Array(stackCount);
    for (let stack = 0; stack < stackCount; stack++) this.order[stack] = stack;
    this.next = new Int32Array(stackCount);
    this.moved = new Int32Array(stackCount);
    this.functions = new Int32Array(most);
    this.parents = new Int32Array(most);
    this.from = new Int32Array(most);
    this.to = new Int32Array(most);
    this.own = new Int32Array(most);
    this.rowOf = new Uint16Array(most);
    this.stacksOf = new Int32Array(functionCount);
    this.place = new Int32Array(functionCount);
    this.nowOf = new Float64Array(functionCount);
    this.beforeOf = new Float64Array(functionCount);
    this.split(this.add(-1, -1, 0, 0, stackCount), 0);
    this.sort();
  }

  /** The function of a stack so far from where merging begins; -1 behind its end. */
  private functionOf(stack: number, depth: number): number {
    const start = this.stacks.starts[stack]!;
    const end = this.stacks.starts[stack + 1]!;
    if (start + depth >= end) return -1;
    return this.stacks.frames[this.inverted ? end - 1 - depth : start + depth]!;
  }

  private add(of: number, caller: number, row: number, from: number, to: number): number {
    const frame = this.count++;
    this.functions[frame] = of;
    this.parents[frame] = caller;
    this.rowOf[frame] = row;
    this.from[frame] = from;
    this.to[frame] = to;
    return frame;
  }

  private split(frame: number, depth: number) {
    const { order, next, stacksOf, nowOf, beforeOf, place, moved } = this;
    const from = this.from[frame]!;
    const to = this.to[frame]!;
    if (to - from === 1) {
      this.addRest(frame, depth);
      return;
    }
    const { now, before } = this.stacks;
    const found: number[] = [];
    for (let at = from; at < to; at++) {
      const stack = order[at]!;
      const of = (next[at] = this.functionOf(stack, depth));
      if (of < 0) continue;
      if (stacksOf[of]!++ === 0) found.push(of);
      nowOf[of]! += now[stack]!;
      beforeOf[of]! += before[stack]!;
    }
    if (found.length > 1) found.sort((a, b) => nowOf[b]! - nowOf[a]! || beforeOf[b]! - beforeOf[a]! || a - b);
    const ends: number[] = [];
    let end = from;
    for (const of of found) {
      place[of] = end;
      ends.push(end += stacksOf[of]!);
      stacksOf[of] = nowOf[of] = beforeOf[of] = 0;
    }
    this.own[frame] = end;
    if (found.length > 1 || (found.length === 1 && end < to)) {
      for (let at = from; at < to; at++) {
        const of = next[at]!;
        moved[of < 0 ? end++ : place[of]!++] = order[at]!;
      }
      order.set(moved.subarray(from, to), from);
    }
    for (let i = 0, begin = from; i < found.length; begin = ends[i++]!) {
      this.split(this.add(found[i]!, frame, depth + 1, begin, ends[i]!), depth + 1);
    }
  }

  /** Adds what is left of a single stack, which needs no sorting: most frames by far. */
  private addRest(frame: number, depth: number) {
    const { functions, parents, rowOf, from, to, own, stacks: { starts, frames } } = this;
    const at = from[frame]!;
    const [start, end] = [starts[this.order[at]!]! + depth, starts[this.order[at]! + 1]!];
    // Merged from the innermost, the outermost frames are those that are left.
    const first = this.inverted ? end - 1 - depth : start;
    const by = this.inverted ? -1 : 1;
    for (let i = 0; i < end - start; i++) {
      own[frame] = at + 1;
      functions[this.count] = frames[first + i * by]!;
      parents[this.count] = frame;
      rowOf[this.count] = depth + i + 1;
      from[this.count] = at;
      to[this.count] = at + 1;
      frame = this.count++;
    }
    own[frame] = at;
  }

  /** Puts the frames into rows. Within a row they have the right order already. */
  private sort() {
    const { count, rowOf, rows } = this;
    for (let frame = 0; frame < count; frame++) rows[rowOf[frame]! + 1] = (rows[rowOf[frame]! + 1] ?? 0) + 1;
    rows[0] = 0;
    for (let row = 1; row < rows.length; row++) rows[row]! += rows[row - 1]!;
    const next = rows.slice();
    const moved = new Int32Array(count);
    for (let frame = 0; frame < count; frame++) moved[frame] = next[rowOf[frame]!]!++;
    const sorted = (column: Int32Array) => {
      const all = new Int32Array(count);
      for (let frame = 0; frame < count; frame++) all[moved[frame]!] = column[frame]!;
      return all;
    };
    for (let frame = 1; frame < count; frame++) this.parents[frame] = moved[this.parents[frame]!]!;
    this.functions = sorted(this.functions);
    this.parents = sorted(this.parents);
    this.from = sorted(this.from);
    this.to = sorted(this.to);
    this.own = sorted(this.own);
  }
}
