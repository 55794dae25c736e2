// The part of a chart that uPlot draws. Colours are read from the style sheet
// each time a chart is painted, and it is painted anew when the theme changes
// and before the page is printed.

import uPlot from "uplot";
import { around, linearTicks, logTicks, spaced, type Range } from "./axis";
import { short } from "./format";
import type { Look, Shape } from "./look";

export interface Point {
  x: number;
  y: number;
  low?: number;
  high?: number;
}

export interface Line {
  name: string;
  look: Look;
  points: Point[];
  thin?: boolean; // a line without marks
  gaps?: boolean; // where others have a point and it has none, it is not drawn across
  bars?: boolean; // as wide as there is room for, from zero
  apart?: boolean; // marks without a line
  beside?: boolean; // to hold others against: the note explains it, not the legend
}

export interface Axis {
  label: string;
  log: boolean;
  range?: [low: number, high: number]; // around the values unless it is said
  ticks?: number[]; // where there is something to read; round values else
  shadedTo?: number; // what lies below it is not what is measured
  shaded?: string; // what that is
  show: (value: number) => string;
}

/** Something that lies at one x, with the interval it is known to. */
export interface Rule {
  at: number;
  low?: number;
  high?: number;
  look: Look;
  text: string;
}

export interface Content {
  x: Axis;
  y: Axis;
  lines: Line[];
  rules: Rule[];
  xs: number[]; // all that occur, ascending
}

export interface Painted {
  /** Puts the cursor on one of the xs. */
  pointAt(index: number): void;
  remove(): void;
}

type Hover = (at: { index: number; left: number } | null) => void;

const height = 320;
const markSize = 4;

/** Draws into the holder, and keeps the drawing in step with its width and the theme. */
export function paint(holder: HTMLElement, content: Content, hover: Hover): Painted {
  let plot = draw(holder, content, hover);
  const again = () => {
    plot.destroy();
    plot = draw(holder, content, hover);
  };
  const resized = new ResizeObserver(() => {
    if (holder.clientWidth !== plot.width) plot.setSize({ width: holder.clientWidth, height });
  });
  resized.observe(holder);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", again);
  addEventListener("beforeprint", again);
  addEventListener("afterprint", again);
  return {
    pointAt(index) {
      plot.setCursor({ left: plot.valToPos(content.xs[index]!, "x"), top: 10 });
    },
    remove() {
      resized.disconnect();
      dark.removeEventListener("change", again);
      removeEventListener("beforeprint", again);
      removeEventListener("afterprint", again);
      plot.destroy();
    },
  };
}

function draw(holder: HTMLElement, content: Content, hover: Hover): uPlot {
  const { x, y, lines, rules, xs } = content;
  const css = getComputedStyle(holder);
  const colour = (name: string) => css.getPropertyValue(name).trim();
  const points = lines.flatMap((line) => line.points);
  const xRange = x.range ?? around([...xs, ...rules.map((rule) => rule.at)], x.log);
  const yRange = y.range ?? around(points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]).filter((value) => !y.log || value > 0), y.log);
  const font = `12px ${css.fontFamily}`;
  const axis = (of: Axis, range: Range): uPlot.Axis => ({
    font,
    labelFont: font,
    stroke: colour("--muted"),
    grid: { stroke: colour("--grid"), width: 1 },
    ticks: { show: false },
    filter: (_, splits) => splits,
    values: (_, splits) => splits.map((value) => short(of.show(value))),
    splits: (u) => (of === x ? ticksOf(of, range, { pixels: u.width, apart: of.ticks ? 46 : 72 }) : ticksOf(of, range, { pixels: height, apart: 34 })),
  });
  const plot = new uPlot({
    width: holder.clientWidth,
    height,
    padding: [8, 16, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: false, distr: x.log ? 3 : 1, range: () => xRange },
      y: { distr: y.log ? 3 : 1, range: () => yRange },
    },
    axes: [
      { ...axis(x, xRange), label: x.label, labelSize: 22, size: 32 },
      { ...axis(y, yRange), size: 64 },
    ],
    series: [{}, ...lines.map((line) => ({
      stroke: colour(line.look.colour),
      width: line.apart ? 0 : line.beside ? 1.25 : 2,
      dash: line.bars ? [] : line.look.dash,
      spanGaps: !line.gaps,
      ...(line.bars && { paths: uPlot.paths.bars!({ size: [0.9, Infinity] }), fill: colour(line.look.colour), width: 0 }),
      points: { show: false },
    }))],
    hooks: {
      drawClear: [(u) => shade(u, x.shadedTo, colour("--shade"))],
      drawAxes: [(u) => rules.forEach((rule, place) => drawRule(u, rule, { colour: colour(rule.look.colour), line: place + 1 }))],
      draw: [(u) => lines.forEach((line) => drawMarks(u, line, colour(line.look.colour)))],
      setCursor: [(u) => {
        const index = u.cursor.idx;
        const outside = index == null || u.cursor.left == null || u.cursor.left < 0;
        hover(outside ? null : { index, left: u.over.offsetLeft + u.valToPos(xs[index]!, "x") });
      }],
    },
  }, [xs, ...lines.map((line) => {
    const at = new Map(line.points.map((point) => [point.x, point.y]));
    return xs.map((value) => at.get(value) ?? null);
  })], holder);
  plot.over.addEventListener("mouseleave", () => hover(null));
  return plot;
}

/** Values that can be read, at least the given number of pixels apart. */
function ticksOf(axis: Axis, range: Range, { pixels, apart }: { pixels: number; apart: number }): number[] {
  if (axis.ticks) {
    const scale = (value: number) => (axis.log ? Math.log(value) : value);
    const across = scale(range[1]) - scale(range[0]);
    return spaced(axis.ticks, (tick) => ((scale(tick) - scale(range[0])) / across) * (pixels - 80), apart);
  }
  const most = Math.floor(pixels / apart);
  return axis.log ? logTicks(range, most) : linearTicks(range, most);
}

/** Fills the plot from its left edge to a value. */
function shade(u: uPlot, to: number | undefined, colour: string): void {
  if (to === undefined) return;
  const { left, top, height: high } = u.bbox;
  const right = u.valToPos(to, "x", true);
  if (right <= left) return;
  u.ctx.fillStyle = colour;
  u.ctx.fillRect(left, top, right - left, high);
}

/** Intervals as bars with ends, and the points over them. */
function drawMarks(u: uPlot, line: Line, colour: string): void {
  const points = line.gaps ? alone(line, u.data[0] as number[]) : line.thin ? [] : line.points;
  const { ctx } = u;
  const unit = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  for (const point of points) {
    const x = u.valToPos(point.x, "x", true);
    if (point.low !== undefined && point.high !== undefined) {
      const [top, bottom] = [u.valToPos(point.high, "y", true), u.valToPos(Math.max(point.low, u.scales.y!.min!), "y", true)];
      ctx.globalAlpha = 0.55;
      ctx.lineWidth = 1.5 * unit;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, bottom);
      for (const end of [top, bottom]) {
        ctx.moveTo(x - 4 * unit, end);
        ctx.lineTo(x + 4 * unit, end);
      }
      ctx.stroke();
      ctx.globalAlpha = 1;
    }
    ctx.fill(mark(line.look.shape, x, u.valToPos(point.y, "y", true), markSize * unit));
  }
  ctx.restore();
}

/** The points that no line leads to. */
function alone({ points }: Line, xs: number[]): Point[] {
  const known = new Set(points.map(({ x }) => x));
  return points.filter(({ x }) => {
    const place = xs.indexOf(x);
    return !known.has(xs[place - 1]!) && !known.has(xs[place + 1]!);
  });
}

function mark(shape: Shape, x: number, y: number, size: number): Path2D {
  const path = new Path2D();
  switch (shape) {
    case "circle":
      path.arc(x, y, size, 0, 2 * Math.PI);
      break;
    case "square":
      path.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
      break;
    case "triangle":
      path.moveTo(x, y - size * 1.2);
      path.lineTo(x + size * 1.1, y + size * 0.8);
      path.lineTo(x - size * 1.1, y + size * 0.8);
      break;
    case "diamond":
      path.moveTo(x, y - size * 1.2);
      path.lineTo(x + size * 1.2, y);
      path.lineTo(x, y + size * 1.2);
      path.lineTo(x - size * 1.2, y);
  }
  path.closePath();
  return path;
}

/** A vertical line, the band it is known to, and its name, in a line of its own. */
function drawRule(u: uPlot, rule: Rule, { colour, line }: { colour: string; line: number }): void {
  const { ctx, bbox } = u;
  const unit = devicePixelRatio;
  const inside = (value: number) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, u.valToPos(value, "x", true)));
  const x = inside(rule.at);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  if (rule.low !== undefined && rule.high !== undefined) {
    ctx.globalAlpha = 0.12;
    ctx.fillRect(inside(rule.low), bbox.top, inside(rule.high) - inside(rule.low), bbox.height);
  }
  ctx.globalAlpha = 1;
  ctx.lineWidth = 1.5 * unit;
  ctx.setLineDash([4 * unit, 4 * unit]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.font = `${12 * unit}px ${getComputedStyle(u.root).fontFamily}`;
  const room = bbox.left + bbox.width - x;
  ctx.textAlign = ctx.measureText(rule.text).width + 8 * unit > room ? "right" : "left";
  ctx.fillText(rule.text, x + (ctx.textAlign === "left" ? 6 : -6) * unit, bbox.top + 15 * line * unit);
  ctx.restore();
}
