// One flame graph, and the ways through it by pointer and keyboard.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ProfiledFunction } from "../data";
import { Drawing } from "../export";
import { Figures, Gone, GroupSwatch, Tip } from "./beside";
import { changeOf } from "./change";
import { shareOut, shortName, type Groups } from "./groups";
import { Painter, rowHeight } from "./painter";
import { compared, holding } from "./stacks";
import { Tree } from "./tree";
import { share, Words, type Labels, type Subject } from "./words";

interface Props {
  title: string;
  note?: string; // in place of what the profiles' figures come from
  called?: Labels;
  heading?: "h3" | "h4";
  of: Subject;
  against: Subject | undefined; // whose widths are not shown
  functions: ProfiledFunction[];
  groups: Groups;
  from: "outermost" | "innermost";
  found: Uint8Array | null; // the functions that are searched for
  lit: number | null;
  light: (group: number | null) => void;
}

const leastGroup = 0.005; // of the whole, of a group in the legend
const ab: Labels = { of: "B", against: "A" };

/** Another profile, or the other way to merge it, is another graph: give it another key. */
export function FlameGraph({ title, note, called = ab, heading, of, against, functions, groups, from, found, lit, light }: Props) {
  const stacks = useMemo(() => (against ? compared(of.stacks, against.stacks) : of.stacks), [of, against]);
  const layouts = useRef(0);
  const tree = useMemo(() => {
    layouts.current++;
    const start = performance.now();
    const merged = Tree.merge(stacks, functions.length, from);
    performance.measure("stacks merged", { start });
    return merged;
  }, [stacks, from]);
  const labels = useMemo(() => functions.map(shortName), [functions]);
  const words = new Words(tree, of, against, called, functions, groups, from);

  const holder = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter>(null);
  const [zooms, setZooms] = useState([0]);
  const [focused, setFocused] = useState<number | null>(null);
  const [hover, setHover] = useState<{ frame: number; x: number; y: number } | null>(null);
  const zoomed = zooms.at(-1)!;

  useEffect(() => {
    painter.current = new Painter(holder.current!, canvas.current!);
    return () => painter.current!.remove();
  }, []);
  useEffect(() => {
    painter.current!.show({ tree, labels, whole: words.name(0), groups, lit, found, change: (frame) => words.changeOf(frame), focused, hovered: hover?.frame ?? null });
  }, [tree, groups, lit, found, focused, hover?.frame]);

  const zoomTo = (frame: number) => {
    if (frame === zoomed) return;
    setZooms(frame === 0 ? [0] : [...zooms, frame]);
    painter.current!.zoom(frame);
  };
  const back = () => {
    const to = zooms.at(-2) ?? 0;
    setZooms(zooms.length > 1 ? zooms.slice(0, -1) : [0]);
    painter.current!.zoom(to);
    focus(focused ?? to);
  };
  const focus = (frame: number) => {
    setFocused(frame);
    painter.current!.reveal(frame);
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const at = focused ?? zoomed;
    const shown = (frame: number | undefined) => (frame !== undefined && painter.current!.shows(frame, zoomed) ? frame : undefined);
    const beside = (by: 1 | -1) => {
      const row = tree.rowOf(at);
      for (let frame = at + by; frame >= tree.rows[row]! && frame < tree.rows[row + 1]!; frame += by) if (shown(frame) !== undefined) return frame;
      return undefined;
    };
    const go = (frame: number | undefined) => focus(frame ?? at);
    const keys: Record<string, () => void> = {
      ArrowDown: () => go(shown(focused === null ? at : calleeIn(tree, at, zoomed))),
      ArrowUp: () => go(at === 0 ? at : tree.parents[at]!),
      ArrowRight: () => go(beside(1)),
      ArrowLeft: () => go(beside(-1)),
      Home: () => go(0),
      Enter: () => zoomTo(at),
      Escape: back,
      Backspace: back,
    };
    const act = keys[event.key];
    if (!act || (event.key === "Escape" && zoomed === 0)) return;
    event.preventDefault();
    act();
  };
  const under = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return painter.current!.frameAt(event.clientX - box.left, event.clientY - box.top);
  };

  const sums = useMemo(() => shareOut(groups, stacks), [groups, stacks]);
  const matches = useMemo(() => found && holding(stacks, found), [found, stacks]);
  const told = focused ?? zoomed;
  return (
    <Drawing class="flame" title={title} note={note ?? words.summary()} heading={heading} only="picture">
      <ul class="legend groups">
        {sums.map((sum, group) => ({ sum, group })).filter(({ sum }) => sum.now + sum.before >= leastGroup * tree.total).sort((a, b) => b.sum.now - a.sum.now).map(({ sum, group }) => (
          <li key={group}>
            <button type="button" aria-pressed={lit === group} onClick={() => light(lit === group ? null : group)}>
              {!against && <GroupSwatch group={group} />} {groups.names[group]} <b>{share(sum.now / tree.total)}</b>
              {against && <small> {words.difference(changeOf(sum.now, sum.before, of, against))}</small>}
            </button>
          </li>
        ))}
      </ul>
      <p class="found" role="status">{matches && `${share(matches.now / tree.total)} of all is in stacks with a match: ${words.value(matches.now)}${against ? `; in ${called.against} ${words.value(matches.before)}` : ""}.`}</p>
      <div class="flame-bar">
        <p class="told" aria-live="polite">{words.line(told)}</p>
        <button type="button" class="plain" disabled={zoomed === 0} onClick={back}>Zoom out</button>
      </div>
      <div class="flames" ref={holder} tabIndex={0} role="application" aria-roledescription="flame graph"
        aria-label={`${title}. Arrow keys move between frames, Enter zooms, Escape goes back.`}
        data-layouts={layouts.current} data-zoomed={zoomed === 0 ? "" : words.name(zoomed)}
        onKeyDown={press}
        onMouseMove={(event) => {
          const frame = under(event);
          const box = holder.current!.getBoundingClientRect();
          setHover(frame === undefined ? null : { frame, x: event.clientX - box.left, y: event.clientY - box.top });
        }}
        onMouseLeave={() => setHover(null)}
        onClick={(event) => {
          const frame = under(event);
          if (frame === undefined) return;
          setFocused(frame);
          zoomTo(frame);
        }}>
        <div style={{ height: `${tree.depth * rowHeight}px` }}>
          <canvas ref={canvas} />
        </div>
      </div>
      <div class="flame-tip">{hover && <Tip words={words} frame={hover.frame} x={hover.x} y={hover.y - (holder.current?.clientHeight ?? 0)} />}</div>
      {against && <Gone tree={tree} words={words} label={called.against} />}
      <Figures title={title} stacks={stacks} functions={functions} words={words} total={tree.total} compare={against && called.against} />
    </Drawing>
  );
}

/** The frame beneath one on the way to what is zoomed to, or its widest. */
function calleeIn(tree: Tree, frame: number, zoomed: number): number | undefined {
  const path = tree.path(zoomed);
  const row = tree.rowOf(frame);
  return (row === 0 ? 0 : path[row - 1]) === frame && path[row] !== undefined ? path[row] : tree.calleeOf(frame);
}
