// What a flame graph can be coloured by: the categories of its stacks, or the packages
// of its functions.

import type { ProfiledFunction } from "../data";
import type { Stacks } from "./stacks";

export interface Groups {
  by: "category" | "package";
  names: string[]; // a group's place is its colour
  ofFunction?: Int32Array; // the group of each function; absent where stacks are grouped
}

const namedPackages = 7; // the eighth colour is for all others

/** Groups functions by the packages that have most by themselves in one of the profiles. */
export function packagesOf(functions: ProfiledFunction[], profiles: Stacks[]): Groups {
  const names = functions.map(packageOf);
  const largest = new Map<string, number>();
  for (const stacks of profiles) {
    const own = new Map<string, number>();
    let total = 0;
    for (let stack = 0; stack < stacks.now.length; stack++) {
      total += stacks.now[stack]!;
      const innermost = innermostOf(stacks, stack);
      if (innermost !== undefined) own.set(names[innermost]!, (own.get(names[innermost]!) ?? 0) + stacks.now[stack]!);
    }
    for (const [name, value] of own) largest.set(name, Math.max(value / total, largest.get(name) ?? 0));
  }
  const named = [...largest].sort((a, b) => b[1] - a[1]).slice(0, namedPackages).map(([name]) => name);
  const place = new Map(named.map((name, i) => [name, i]));
  return {
    by: "package",
    names: [...named, "other packages"],
    ofFunction: Int32Array.from(names, (name) => place.get(name) ?? named.length),
  };
}

/** What each group has, where a stack counts for the package of its innermost function. */
export function shareOut(groups: Groups, stacks: Stacks): { now: number; before: number }[] {
  const all = groups.names.map(() => ({ now: 0, before: 0 }));
  for (let stack = 0; stack < stacks.now.length; stack++) {
    const innermost = innermostOf(stacks, stack);
    const group = !groups.ofFunction ? stacks.category[stack]! : innermost === undefined ? groups.names.length - 1 : groups.ofFunction[innermost]!;
    all[group]!.now += stacks.now[stack]!;
    all[group]!.before += stacks.before[stack]!;
  }
  return all;
}

function innermostOf({ starts, frames }: Stacks, stack: number): number | undefined {
  return starts[stack + 1]! > starts[stack]! ? frames[starts[stack + 1]! - 1] : undefined;
}

/** The package of a Go function, or what else a function is in. */
export function packageOf({ name, in: where }: ProfiledFunction): string {
  if (where !== "") return where;
  const plain = withoutTypes(name);
  const dot = plain.indexOf(".", plain.lastIndexOf("/") + 1);
  return dot < 0 ? plain : plain.slice(0, dot);
}

/** A function without the path of its package. */
export function shortName({ name }: ProfiledFunction): string {
  return name.slice(withoutTypes(name).lastIndexOf("/") + 1);
}

/** A generic function's types hold paths too. */
function withoutTypes(name: string): string {
  const bracket = name.indexOf("[");
  return bracket < 0 ? name : name.slice(0, bracket);
}
