// Draws the frames of a tree onto a canvas. What it draws is bounded by the pixels and
// not by the frames: a row is searched for what is next beyond half a pixel, and rows
// out of sight are left out.

import { stepOf, type Change } from "./change";
import type { Groups } from "./groups";
import type { Tree } from "./tree";

export interface Scene {
  tree: Tree;
  labels: string[]; // of the functions
  whole: string; // what frame 0 is called
  groups: Groups;
  lit: number | null; // the group that is looked for
  found: Uint8Array | null; // the functions that are searched for
  change: (frame: number) => Change | null; // in a comparison
  focused: number | null;
  hovered: number | null;
}

export const rowHeight = 20;
// Pixels: what is narrower is drawn with its neighbours.
const narrowStill = 0.5;
const narrowMoving = 1.5; // where the eye cannot follow, and a frame has 16 ms
const zoomTime = 180; // milliseconds
export const groupColours = 8;
/** How much of its colour a group has, in the first round of the colours and in the second. */
export const tints = [0.34, 0.62];
const printedRows = 60;
const ofOneCategory = 0.9; // of a frame: it has that category's colour
const stripHeight = 3;
const stripFrom = 12; // pixels: in a narrower frame nobody would see it

/** What is to be seen, as a part of the total. */
interface View {
  left: number;
  right: number;
}

interface Move {
  from: View;
  to: View;
  began: number; // milliseconds, as the next
  takes: number;
}

interface Colours {
  ground: string;
  ink: string;
  muted: string;
  focus: string;
  plain: string;
  faint: string; // what is not looked for
  narrow: string;
  groups: string[];
  strong: string[]; // the same in the strip of a frame of several categories
  steps: string[]; // from shrank most to grew most
}

export class Painter {
  private scene!: Scene;
  private colours!: Colours;
  private context: CanvasRenderingContext2D;
  private view: View = { left: 0, right: 1 };
  private font = "";
  private character = 7; // its width
  private move: Move | null = null; // while the view changes
  private asked = 0; // the browser's number of the frame that was asked for
  private printing = false;
  private rectangles = 0;
  private filled = ""; // the colour that the context has
  private readonly ends = new AbortController();
  private readonly resized = new ResizeObserver(() => this.later());

  constructor(private readonly holder: HTMLElement, private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
    const signal = this.ends.signal;
    const recolour = () => {
      this.readColours();
      this.draw();
    };
    const print = (printing: boolean) => () => {
      this.printing = printing;
      recolour();
    };
    this.readColours();
    this.resized.observe(holder);
    holder.addEventListener("scroll", () => this.later(), { signal, passive: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour, { signal });
    addEventListener("beforeprint", print(true), { signal });
    addEventListener("afterprint", print(false), { signal });
  }

  remove() {
    this.ends.abort();
    this.resized.disconnect();
    cancelAnimationFrame(this.asked);
  }

  show(scene: Scene) {
    if (!this.scene) this.view = { left: 0, right: scene.tree.total };
    this.scene = scene;
    this.later();
  }

  /** Makes a frame as wide as the canvas. */
  zoom(frame: number) {
    const { tree } = this.scene;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.move = { from: this.view, to: { left: tree.left(frame), right: tree.right(frame) }, began: performance.now(), takes: still ? 0 : zoomTime };
    this.later();
  }

  /** The frame at a place of the canvas. */
  frameAt(x: number, y: number): number | undefined {
    const row = Math.floor((y + this.holder.scrollTop) / rowHeight);
    return this.scene.tree.frameAt(row, this.view.left + x / this.scale);
  }

  /** Whether a frame is wide enough to be drawn by itself, zoomed to another one. */
  shows(frame: number, zoomed: number): boolean {
    const { tree } = this.scene;
    const scale = this.holder.clientWidth / tree.now(zoomed);
    const width = Math.min(tree.right(frame), tree.right(zoomed)) - Math.max(tree.left(frame), tree.left(zoomed));
    return width * scale >= narrowStill;
  }

  /** Scrolls to a frame's row. */
  reveal(frame: number) {
    const top = this.scene.tree.rowOf(frame) * rowHeight;
    const { scrollTop, clientHeight } = this.holder;
    if (top < scrollTop) this.holder.scrollTop = top;
    else if (top + rowHeight > scrollTop + clientHeight) this.holder.scrollTop = top + rowHeight - clientHeight;
  }

  private get scale(): number { return this.holder.clientWidth / (this.view.right - this.view.left); }

  private later() {
    this.asked ||= requestAnimationFrame(() => {
      this.asked = 0;
      this.advance();
      this.draw();
      if (this.move) this.later();
    });
  }

  /** Takes the view to where a zoom is by now. */
  private advance() {
    if (!this.move) return;
    const { from, to, began, takes } = this.move;
    const passed = performance.now() - began;
    const left = passed < takes ? 1 - passed / takes : 0;
    const near = (a: number, b: number) => b + (a - b) * left ** 3;
    this.view = left > 0 ? { left: near(from.left, to.left), right: near(from.right, to.right) } : to;
    if (left === 0) this.move = null;
  }

  private readColours() {
    const css = getComputedStyle(this.holder);
    const read = (name: string) => {
      this.context.fillStyle = css.getPropertyValue(name).trim();
      return this.context.fillStyle; // as #rrggbb, however the style sheet has it
    };
    const raised = read("--raised");
    const tinted = (name: string, part: number) => mixed(read(name), raised, part);
    const each = (parts: number[]) => parts.flatMap((part) => Array.from({ length: groupColours }, (_, i) => tinted(`--stack-${i}`, part)));
    const shades = [0.55, 0.35, 0.18];
    this.colours = {
      ground: raised, ink: read("--ink"), muted: read("--muted"), focus: read("--link"),
      plain: read("--grid"), faint: mixed(read("--grid"), raised, 0.5), narrow: read("--line"),
      groups: each(tints),
      strong: each([0.85, 1]),
      steps: [...shades.map((part) => tinted("--stack-0", part)), read("--grid"), ...shades.toReversed().map((part) => tinted("--stack-1", part))],
    };
    this.font = `11.5px ${css.getPropertyValue("--mono")}`;
  }

  private draw() {
    const { holder, canvas, context, scene } = this;
    if (!scene) return;
    const width = holder.clientWidth;
    const rows = scene.tree.depth;
    const top = this.printing ? 0 : holder.scrollTop;
    const height = this.printing ? Math.min(rows, printedRows) * rowHeight : holder.clientHeight;
    const ratio = this.printing ? 2 : devicePixelRatio;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = this.font;
    context.textBaseline = "middle";
    this.character = context.measureText("mmmmmmmmmm").width / 10;
    this.rectangles = 0;
    this.filled = "";
    const last = Math.min(rows, Math.ceil((top + height) / rowHeight));
    for (let row = Math.floor(top / rowHeight); row < last; row++) this.drawRow(row, row * rowHeight - top, width);
    for (const [frame, colour, line] of [[scene.hovered, this.colours.ink, 1], [scene.focused, this.colours.focus, 3]] as const) {
      if (frame !== null) this.outline(frame, top, width, colour, line);
    }
    if (!("rectangles" in canvas.dataset)) performance.mark("flame graph drawn");
    canvas.dataset["rectangles"] = String(this.rectangles);
  }

  private drawRow(row: number, y: number, width: number) {
    const { tree } = this.scene;
    const { left } = this.view;
    const narrow = this.move ? narrowMoving : narrowStill;
    const scale = this.scale;
    const end = tree.rows[row + 1]!;
    const run = { from: 0, to: -1 }; // of frames too narrow to be drawn by themselves
    const drawRun = () => {
      if (run.to - run.from >= narrow) this.fill(this.colours.narrow, run.from, y, run.to - run.from, rowHeight - 1);
      run.to = -1;
    };
    for (let frame = tree.firstBeyond(row, tree.rows[row]!, left); frame < end;) {
      const x = (tree.left(frame) - left) * scale;
      if (x >= width) break;
      const wide = tree.now(frame) * scale;
      if (wide >= narrow) {
        drawRun();
        const from = Math.max(0, x);
        this.drawFrame(frame, from, y, Math.min(width, x + wide) - from);
        frame++;
        continue;
      }
      const next = tree.firstBeyond(row, frame + 1, tree.left(frame) + narrow / scale);
      if (run.to < 0 || x - run.to > narrow) {
        drawRun();
        run.from = x;
      }
      run.to = (tree.right(next - 1) - left) * scale;
      frame = next;
    }
    drawRun();
  }

  private drawFrame(frame: number, x: number, y: number, wide: number) {
    const { scene, colours, context } = this;
    const of = scene.tree.functions[frame]!;
    const width = wide > 2 ? wide - 1 : wide; // a gap between neighbours
    const height = rowHeight - 1;
    const found = scene.found && of >= 0 && scene.found[of] === 1;
    const change = scene.change(frame);
    const faded = (scene.found && !found) || (scene.lit !== null && this.drawLit(frame, x, y, width, height));
    if (scene.found && !found) this.fill(colours.faint, x, y, width, height);
    else if (scene.lit === null && change) this.fill(colours.steps[stepOf(change) + 3]!, x, y, width, height);
    else if (scene.lit === null) this.drawGroups(frame, x, y, width, height);
    if (found && width > 3) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 1.5;
      context.strokeRect(x + 0.75, y + 0.75, width - 1.5, height - 1.5);
    }
    const room = Math.floor((width - 7) / this.character);
    if (room < 3) return;
    const mark = change ? marks[Math.sign(stepOf(change)) + 1]! : "";
    const label = mark + (of < 0 ? scene.whole : scene.labels[of]!);
    context.fillStyle = this.filled = faded ? colours.muted : colours.ink;
    context.fillText(label.length > room ? label.slice(0, room - 1) + "…" : label, x + 4, y + height / 2 + 0.5);
  }

  /** Draws how much of a frame is of the group that is looked for; reports whether that is nothing. */
  private drawLit(frame: number, x: number, y: number, width: number, height: number): boolean {
    const { scene, colours } = this;
    const { tree, groups } = scene;
    const share = groups.ofFunction ? Number(groups.ofFunction[tree.functions[frame]!] === scene.lit) : tree.ofCategory(frame, scene.lit!) / tree.now(frame);
    this.fill(colours.faint, x, y, width, height);
    if (share > 0) this.fill(colours.groups[scene.lit! % colours.groups.length]!, x, y, width * share, height);
    return share === 0;
  }

  /** A frame of several categories is grey, with a strip that has their shares. */
  private drawGroups(frame: number, x: number, y: number, width: number, height: number) {
    const { colours, scene: { tree, groups } } = this;
    const colour = (group: number) => colours.groups[group % colours.groups.length]!;
    if (groups.ofFunction) {
      this.fill(frame === 0 ? colours.plain : colour(groups.ofFunction[tree.functions[frame]!]!), x, y, width, height);
      return;
    }
    const main = tree.mainCategory(frame);
    const now = tree.now(frame);
    if (width < stripFrom || tree.ofCategory(frame, main) >= ofOneCategory * now) {
      this.fill(colour(main), x, y, width, height);
      return;
    }
    this.fill(colours.plain, x, y, width, height);
    let from = x;
    for (let category = 0; category < groups.names.length; category++) {
      const wide = (tree.ofCategory(frame, category) / now) * width;
      if (wide < narrowStill) continue;
      this.fill(colours.strong[category % colours.strong.length]!, from, y + height - stripHeight, wide, stripHeight);
      from += wide;
    }
  }

  private outline(frame: number, top: number, width: number, colour: string, line: number) {
    const { tree } = this.scene;
    const left = Math.max(0, (tree.left(frame) - this.view.left) * this.scale);
    const right = Math.min(width, (tree.right(frame) - this.view.left) * this.scale);
    if (right <= left) return;
    this.context.strokeStyle = colour;
    this.context.lineWidth = line;
    this.context.strokeRect(left + line / 2, tree.rowOf(frame) * rowHeight - top + line / 2, Math.max(1, right - left - 1 - line), rowHeight - 1 - line);
  }

  private fill(colour: string, x: number, y: number, width: number, height: number) {
    if (colour !== this.filled) this.context.fillStyle = this.filled = colour; // it is parsed each time
    this.context.fillRect(x, y, width, height);
    this.rectangles++;
  }
}

/** Before the name of what shrank, is the same, or grew. */
const marks = ["▼ ", "", "▲ "];

/** So much of a colour over another; both as #rrggbb. */
function mixed(colour: string, ground: string, part: number): string {
  const channels = (hex: string) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const under = channels(ground);
  return `rgb(${channels(colour).map((value, i) => Math.round(part * value + (1 - part) * under[i]!)).join(" ")})`;
}
