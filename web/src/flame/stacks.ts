// Call stacks as columns of numbers: a profile may have 100,000 of them;
// objects would take seconds and hundreds of megabytes.

/** Places in the lists of functions and categories that all profiles of a page share. */
export interface Stacks {
  starts: Int32Array; // where each stack begins in frames; one more for the end of the last
  frames: Int32Array; // functions, outermost first
  category: Uint16Array;
  now: Float64Array; // of the unit, a call; in a comparison that of the profile which gives the widths
  before: Float64Array; // the same of the profile that is compared with; 0 where there is none
}

const packedHead = 2; // numbers before a stack's frames
const packedTail = 2; // and behind them

/** Unpacks the stacks of a profile. Its weights were rounded, so they are made to add up again. */
export function unpack({ stacks: packed, per_call }: { stacks: number[]; per_call: number }): Stacks {
  let count = 0;
  let length = 0;
  let sum = 0;
  for (let at = 0; at < packed.length; count++) {
    const further = packed[at + 1]!;
    length += packed[at]! + further;
    at += packedHead + further + packedTail;
    sum += packed[at - 1]!;
  }
  const stacks = empty(count, length);
  let end = 0;
  for (let at = 0, stack = 0; stack < count; stack++) {
    const shared = packed[at]!;
    const further = packed[at + 1]!;
    stacks.starts[stack] = end;
    if (shared > 0) stacks.frames.copyWithin(end, stacks.starts[stack - 1]!, stacks.starts[stack - 1]! + shared);
    at += packedHead;
    for (let i = 0; i < further; i++) stacks.frames[end + shared + i] = packed[at + i]!;
    at += further + packedTail;
    end += shared + further;
    stacks.category[stack] = packed[at - 2]!;
    stacks.now[stack] = (packed[at - 1]! / sum) * per_call;
  }
  stacks.starts[count] = end;
  return stacks;
}

/** The stacks of two profiles in one list: the widths are those of the first. */
export function compared(now: Stacks, before: Stacks): Stacks {
  const [count, length] = [now.now.length, now.frames.length];
  const both = empty(count + before.now.length, length + before.frames.length);
  both.starts.set(now.starts);
  both.starts.set(before.starts.map((start) => start + length), count);
  both.frames.set(now.frames);
  both.frames.set(before.frames, length);
  both.category.set(now.category);
  both.category.set(before.category, count);
  both.now.set(now.now);
  both.before.set(before.now, count);
  return both;
}

function empty(count: number, length: number): Stacks {
  return {
    starts: new Int32Array(count + 1),
    frames: new Int32Array(length),
    category: new Uint16Array(count),
    now: new Float64Array(count),
    before: new Float64Array(count),
  };
}

/** What the stacks have that hold one of the functions at least, each stack counted once. */
export function holding(stacks: Stacks, wanted: Uint8Array): { now: number; before: number } {
  const { starts, frames } = stacks;
  const found = { now: 0, before: 0 };
  for (let stack = 0; stack < stacks.now.length; stack++) {
    for (let at = starts[stack]!; at < starts[stack + 1]!; at++) {
      if (wanted[frames[at]!]) {
        found.now += stacks.now[stack]!;
        found.before += stacks.before[stack]!;
        break;
      }
    }
  }
  return found;
}

/** What each function has by itself, and with all that it calls. */
export function byFunction(stacks: Stacks, functionCount: number): { self: Float64Array; selfBefore: Float64Array; whole: Float64Array } {
  const { starts, frames, now, before } = stacks;
  const self = new Float64Array(functionCount);
  const selfBefore = new Float64Array(functionCount);
  const whole = new Float64Array(functionCount);
  const seenIn = new Int32Array(functionCount).fill(-1); // a recursive function is counted once
  for (let stack = 0; stack < now.length; stack++) {
    const end = starts[stack + 1]!;
    for (let at = starts[stack]!; at < end; at++) {
      const of = frames[at]!;
      if (seenIn[of] !== stack) whole[of]! += now[stack]!;
      seenIn[of] = stack;
    }
    if (end === starts[stack]) continue;
    self[frames[end - 1]!]! += now[stack]!;
    selfBefore[frames[end - 1]!]! += before[stack]!;
  }
  return { self, selfBefore, whole };
}
