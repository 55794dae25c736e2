// What stands beside a flame graph: the tip under the pointer, the legends, and its
// figures as text.

import { Head, Scroll } from "../export";
import { useMemo, useState } from "preact/hooks";
import type { ProfiledFunction } from "../data";
import { ratios } from "./change";
import { groupColours, tints } from "./painter";
import { byFunction, type Stacks } from "./stacks";
import type { Tree } from "./tree";
import { share, type Words } from "./words";

/** What is under the pointer. */
export function Tip({ words, frame, x, y }: { words: Words; frame: number; x: number; y: number }) {
  const change = words.change(frame);
  const categories = words.categories(frame);
  return (
    <div class="tip" style={{ left: `clamp(0px, ${x}px - 8rem, 100% - 16rem)`, top: `${y + 18}px` }}>
      <b>{words.name(frame)}</b>
      <div>{words.sizeOf(frame)}</div>
      {change && <div>{change}</div>}
      <div>{words.self(frame)}</div>
      {categories && <div>{categories}</div>}
      {!categories && words.package(frame) && <div>package {words.package(frame)}</div>}
    </div>
  );
}

/** As frames of the group are drawn, with a border for what is pale. */
export function GroupSwatch({ group }: { group: number }) {
  const colour = `var(--stack-${group % groupColours})`;
  const part = tints[Math.floor(group / groupColours) % tints.length]! * 100;
  return (
    <svg class="swatch" width="12" height="12" aria-hidden="true">
      <rect x="0.75" y="0.75" width="10.5" height="10.5" rx="2" style={{ fill: `color-mix(in srgb, ${colour} ${part}%, var(--raised))`, stroke: colour, strokeWidth: 1.5 }} />
    </svg>
  );
}

/** The colours of a comparison. */
export function Steps({ compared }: { compared: string }) {
  const [small, middle, large] = ratios.map((ratio) => `${ratio}×`);
  const steps: [step: number, name: string][] = [
    [-3, `▼ less than 1/${large}`], [-2, `▼ less than 1/${middle}`], [-1, `▼ less than 1/${small}`], [0, "the same, or not sure"],
    [1, `▲ more than ${small}`], [2, `▲ more than ${middle}`], [3, `▲ more than ${large}, or new`],
  ];
  return (
    <ul class="legend steps" aria-label={`Colours: time per call, ${compared}`}>
      {steps.map(([step, name]) => (
        <li key={step}><i class={`step step${step < 0 ? "-less" : step > 0 ? "-more" : ""}-${Math.abs(step)}`} aria-hidden="true" /> {name}</li>
      ))}
    </ul>
  );
}

const goneShown = 10;
const leastGone = 0.001; // of the whole

/** The largest of what only the profile compared with has. */
export function Gone({ tree, words, label }: { tree: Tree; words: Words; label: string }) {
  const gone = useMemo(() => tree.gone(goneShown).filter((frame) => tree.before(frame) >= leastGone * tree.total), [tree]);
  if (gone.length === 0) return null;
  return (
    <div class="gone">
      <p class="note">Functions that only {label} has:</p>
      <ul>
        {gone.map((frame) => (
          <li key={frame}>
            <code>{words.name(frame)}</code> −{words.value(tree.before(frame))}
            {tree.parents[frame]! > 0 && <small> beneath {words.name(tree.parents[frame]!)}</small>}
          </li>
        ))}
      </ul>
    </div>
  );
}

const functionsShown = 25;

interface FiguresProps {
  title: string;
  stacks: Stacks;
  functions: ProfiledFunction[];
  words: Words;
  total: number;
  compare: string | undefined;
}

/** The functions with most by themselves: computed when they are asked for. */
export function Figures({ title, stacks, functions, words, total, compare }: FiguresProps) {
  const [open, setOpen] = useState(false);
  const rows = useMemo(() => {
    if (!open) return [];
    const { self, selfBefore, whole } = byFunction(stacks, functions.length);
    const largest = Array.from(self.keys()).sort((a, b) => self[b]! - self[a]!).slice(0, functionsShown);
    return largest.filter((of) => self[of]! > 0).map((of) => ({ of, self: self[of]!, before: selfBefore[of]!, whole: whole[of]! }));
  }, [open, stacks]);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Figures of this chart</summary>
      <Scroll name={`Functions of ${title}`}>
        <table>
          <Head titles={["#By itself", "#A call", compare && `#In ${compare}`, "#With the functions it calls", "Function"]} />
          <tbody>
            {rows.map((row) => (
              <tr key={row.of}>
                <td class="number">{share(row.self / total)}</td>
                <td class="number">{words.amount(row.self)}</td>
                {compare && <td class="number">{words.amount(row.before)}</td>}
                <td class="number">{share(row.whole / total)}</td>
                <th scope="row" class="path"><code>{functions[row.of]!.name}</code>{functions[row.of]!.in && <small> {functions[row.of]!.in}</small>}</th>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}
