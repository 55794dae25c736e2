// One chart of lines, or of bars beside each other, over a common x axis, as SVG.
// Every chart has a name for those who cannot see it, values under the pointer or
// the arrow keys, its figures as a table, a legend that hides lines, and a zoom.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useLocal } from "./controls";
import { Drawing, Grid } from "./export";
import { short } from "./format";
import type { Look } from "./look";
import { around, Interval, Mark, scaleOf, spaced, Swatch, ticksOf, type Range, type Scale } from "./marks";

export interface Point {
  x: number;
  y: number;
  low?: number;
  high?: number;
  unsure?: boolean; // there is no interval: drawn hollow
  note?: string; // what it rests on
}

export interface Line {
  name: string;
  look: Look;
  points: Point[];
  thin?: boolean; // many points: marks stand only where there is room
  gaps?: boolean; // where others have a point and it has none, it is not drawn across
  bars?: boolean; // as wide as there is room for, from zero
  apart?: boolean; // marks without a line
  beside?: boolean; // to hold others against: the note explains it, not the legend
}

export interface Axis {
  label: string;
  log: boolean;
  range?: Range; // around the values unless it is said
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

interface Props {
  title: string;
  id?: string; // in its section, where the title changes
  note?: string;
  x: Axis;
  y: Axis;
  lines: Line[];
  rules?: Rule[];
  grouped?: boolean; // bars beside each other at each x, for few of them
}

interface Zoom {
  range: Range;
  label: string; // of the axis
}

const within = (value: number, range: Range) => value >= range[0] && value <= range[1];

const height = 320;
const edge = { left: 66, right: 16, top: 8, bottom: 46 };

export function Chart({ title, id = title.split(",")[0]!, note, x, y, lines, rules = [], grouped = false }: Props) {
  const [hidden, setHidden] = useLocal<ReadonlySet<string>>(`hidden: ${id}`, new Set());
  const [asked, setZoom] = useLocal<Zoom | null>(`zoom: ${id}`, null);
  const named = lines.filter((line) => !line.beside);
  const drawn = lines.filter((line) => !hidden.has(line.name));
  // Another axis, or a filter that leaves nothing there, sets a zoom aside until it fits again.
  const zoom = asked && !grouped && asked.label === x.label && drawn.some((line) => line.points.some((point) => within(point.x, asked.range))) ? asked.range : null;
  const toggle = (name: string, alone: boolean) => {
    const others = named.filter((line) => line.name !== name).map((line) => line.name);
    const isAlone = !hidden.has(name) && others.every((other) => hidden.has(other));
    if (alone) return setHidden(new Set(isAlone ? [] : others));
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  };
  return (
    <Drawing title={title} note={note} figures={<Figures x={x} y={y} lines={lines} />}>
      <ul class="legend lines">
        {named.map((line) => (
          <li key={line.name}>
            {named.length > 1
              ? <button type="button" aria-pressed={!hidden.has(line.name)} title="Click to hide or show; double-click, or click with Shift, to show it alone." onClick={(event) => toggle(line.name, event.shiftKey)} onDblClick={() => toggle(line.name, true)}><Swatch look={line.look} apart={line.apart} /> {line.name}</button>
              : <><Swatch look={line.look} apart={line.apart} /> {line.name}</>}
          </li>
        ))}
        {drawn.some((line) => line.points.some((point) => point.unsure)) && <li><svg class="swatch" width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true"><Mark shape="circle" colour="--muted" hollow /></svg> no interval</li>}
        {x.shaded && x.range && x.shadedTo! > x.range[0] && <li><i class="shaded" aria-hidden="true" /> {x.shaded}</li>}
        {zoom && <li><button type="button" onClick={() => setZoom(null)}>Show all again</button></li>}
      </ul>
      <div class="y-label" aria-hidden="true">{axisText(y, grouped)}</div>
      <Plot title={title} x={x} y={y} lines={drawn} rules={rules} grouped={grouped} zoom={zoom} setZoom={(range) => setZoom(range && { range, label: x.label })} />
    </Drawing>
  );
}

const axisText = (axis: Axis, linear: boolean) => (axis.log && !linear ? `${axis.label}, log scale` : axis.label);
const xsOf = (lines: Line[]) => [...new Set(lines.flatMap((line) => line.points.map((point) => point.x)))].sort((a, b) => a - b);

interface PlotProps extends Required<Omit<Props, "note" | "id">> {
  zoom: Range | null;
  setZoom: (range: Range | null) => void;
}

/** The drawing, and what the pointer and the arrow keys do in it. */
function Plot({ title, x, y, lines, rules, grouped, zoom, setZoom }: PlotProps) {
  const holder = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<number | null>(null);
  const [drag, setDrag] = useState<Range | null>(null); // in pixels
  useEffect(() => {
    const resized = new ResizeObserver((seen) => setWidth(seen[0]!.contentRect.width));
    resized.observe(holder.current!);
    return () => resized.disconnect();
  }, []);
  const xs = useMemo(() => xsOf(lines), [lines.map((line) => line.name).join(), x]);
  const scales = useMemo(() => (width > 0 && xs.length > 0 ? scalesOf({ x, y, lines, rules, grouped, zoom, xs }, width) : null), [width, xs, y, rules, grouped, zoom]);
  const seen = zoom ? xs.filter((value) => within(value, zoom)) : xs;
  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") setZoom(null);
    if (by === undefined) return;
    event.preventDefault();
    setHover(Math.min(seen.length - 1, Math.max(0, (hover ?? (by > 0 ? -1 : seen.length)) + by)));
  };
  const placeOf = (event: PointerEvent) => event.clientX - holder.current!.getBoundingClientRect().left;
  const move = (event: PointerEvent) => {
    const place = placeOf(event);
    if (drag) setDrag([drag[0], place]);
    if (!scales || seen.length === 0) return;
    const nearest = seen.reduce((best, value, i) => (Math.abs(scales.at(value) - place) < Math.abs(scales.at(seen[best]!) - place) ? i : best), 0);
    setHover(place < edge.left - 10 ? null : nearest);
  };
  const drop = (event: PointerEvent) => {
    if (drag && scales && Math.abs(placeOf(event) - drag[0]) > 12) {
      const ends = [drag[0], placeOf(event)].sort((a, b) => a - b).map((place) => scales.x.valueAt(Math.min(width - edge.right, Math.max(edge.left, place)))) as Range;
      if (xs.some((value) => within(value, ends))) setZoom(ends);
    }
    setDrag(null);
  };
  const at = hover === null ? undefined : seen[hover];
  return (
    <div class={grouped ? "plot" : "plot zooms"} ref={holder} role="img" tabIndex={0} onKeyDown={step} onBlur={() => setHover(null)}
      onPointerDown={(event) => { if (!grouped && event.button === 0) setDrag([placeOf(event), placeOf(event)]); }} onPointerMove={move} onPointerUp={drop}
      onPointerLeave={() => { setHover(null); setDrag(null); }} onDblClick={() => setZoom(null)}
      aria-label={`${title}. ${y.label} against ${x.label} for ${lines.map((line) => line.name).join(", ")}. The figures are in the table below.`}>
      {scales && (
        <svg width={width} height={height} aria-hidden="true">
          <Frame x={x} y={y} scales={scales} grouped={grouped} xs={xs} width={width} />
          <svg x={edge.left} y={0} width={width - edge.left - edge.right} height={height - edge.bottom} viewBox={`${edge.left} 0 ${width - edge.left - edge.right} ${height - edge.bottom}`}>
            {lines.map((line, place) => <Drawn key={line.name} line={line} scales={scales} xs={xs} place={place} />)}
          </svg>
          {rules.map((rule, place) => <Ruled key={rule.text + rule.at} rule={rule} scale={scales.x} line={place} width={width} />)}
          {at !== undefined && !grouped && <line x1={scales.at(at)} x2={scales.at(at)} y1={edge.top} y2={height - edge.bottom} stroke="var(--muted)" stroke-dasharray="3 3" />}
          {drag && <rect x={Math.min(...drag)} y={edge.top} width={Math.abs(drag[1] - drag[0])} height={height - edge.bottom - edge.top} fill="var(--link)" opacity="0.15" />}
        </svg>
      )}
      {scales && at !== undefined && <Tip x={x} y={y} lines={lines} at={at} left={scales.at(at)} late={scales.at(at) > width / 2} />}
    </div>
  );
}

/** Where values lie: x and y, what is at one of the xs, and the room of each bar. */
interface Scales {
  x: Scale;
  y: Scale;
  at: (x: number) => number;
  bar: (x: number, place: number) => Range; // left and right
  grouped: boolean;
}

type Content = Omit<PlotProps, "title" | "setZoom"> & { xs: number[] };

function scalesOf({ x, y, lines, rules, grouped, zoom, xs }: Content, width: number): Scales {
  const across: Range = [edge.left, width - edge.right];
  const points = lines.flatMap((line) => line.points).filter((point) => !zoom || within(point.x, zoom));
  const values = points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]);
  const log = y.log && !grouped;
  const known = values.filter((value) => !log || value > 0);
  const most = Math.max(...known);
  const range: Range = grouped ? [0, 1.06 * most || 1] : (y.range ?? around(known.length > 0 ? known : [1], log));
  const down = scaleOf(range, log, [height - edge.bottom, edge.top]);
  if (grouped) {
    const scale = scaleOf([-0.5, xs.length - 0.5], false, across);
    const room = ((across[1] - across[0]) / xs.length) * 0.8;
    const one = Math.min(64, room / lines.length);
    const at = (value: number) => scale(xs.indexOf(value));
    const left = (value: number, place: number) => at(value) + (place - lines.length / 2) * one;
    return { x: scale, y: down, at, grouped, bar: (value, place) => [left(value, place) + 1, left(value, place) + one - 1] };
  }
  const scale = scaleOf(zoom ?? x.range ?? around([...xs, ...rules.map((rule) => rule.at)], x.log), x.log, across);
  const apart = Math.min(...xs.slice(1).map((value, i) => scale(value) - scale(xs[i]!)), 40);
  return { x: scale, y: down, at: scale, grouped, bar: (value) => [scale(value) - 0.45 * apart, scale(value) + 0.45 * apart] };
}

/** The axes with their ticks. */
function Frame({ x, y, scales, grouped, xs, width }: { x: Axis; y: Axis; scales: Scales; grouped: boolean; xs: number[]; width: number }) {
  const bottom = height - edge.bottom;
  const inside = (tick: number) => scales.at(tick) >= edge.left - 1 && scales.at(tick) <= width - edge.right + 1;
  const ticks = grouped ? xs : x.ticks ? spaced(x.ticks.filter(inside), scales.at, 46) : ticksOf(scales.x, 72);
  const shadedTo = x.shadedTo === undefined ? edge.left : Math.min(width - edge.right, scales.x(x.shadedTo));
  return (
    <g class="frame">
      {shadedTo > edge.left && <rect x={edge.left} y={edge.top} width={shadedTo - edge.left} height={bottom - edge.top} fill="var(--shade)" />}
      {ticksOf(scales.y, 34).map((tick) => (
        <g key={tick}>
          <line x1={edge.left} x2={width - edge.right} y1={scales.y(tick)} y2={scales.y(tick)} stroke="var(--grid)" />
          <text x={edge.left - 8} y={scales.y(tick) + 4} text-anchor="end">{short(y.show(tick))}</text>
        </g>
      ))}
      {ticks.map((tick) => (
        <g key={tick}>
          {!grouped && <line x1={scales.at(tick)} x2={scales.at(tick)} y1={edge.top} y2={bottom} stroke="var(--grid)" />}
          <text x={scales.at(tick)} y={bottom + 18} text-anchor="middle">{short(x.show(tick))}</text>
        </g>
      ))}
      <text x={(edge.left + width - edge.right) / 2} y={height - 6} text-anchor="middle">{axisText(x, grouped)}</text>
    </g>
  );
}

/** A line with its marks and intervals, or its bars. */
function Drawn({ line, scales, xs, place }: { line: Line; scales: Scales; xs: number[]; place: number }) {
  const { look, points } = line;
  const faded = points.length > 0 && points.every((point) => point.unsure);
  const bars = line.bars || scales.grouped;
  const middle = (point: Point) => (scales.grouped ? (scales.bar(point.x, place)[0] + scales.bar(point.x, place)[1]) / 2 : scales.at(point.x));
  const stroke = `var(${look.colour})`;
  const zero = scales.y.log ? scales.y.range[0] : 0;
  const marked = line.beside || bars ? [] : line.thin ? marksOf(line, scales, xs, place) : points;
  return (
    <g class="line" opacity={faded && !bars ? 0.6 : 1}>
      {!bars && !line.apart && <path d={pathOf(line, scales, xs)} fill="none" stroke={stroke} stroke-width={line.beside ? 1.25 : 2} stroke-linejoin="round" stroke-dasharray={look.dash.join(" ")} />}
      {bars && points.map((point) => {
        const [left, right] = scales.bar(point.x, place);
        const top = scales.y(Math.max(point.y, zero));
        return <rect key={point.x} x={left} y={top} width={Math.max(1, right - left)} height={Math.max(0, scales.y(zero) - top)} fill={stroke} fill-opacity={point.unsure ? 0.16 : 1} stroke={stroke} stroke-width={point.unsure ? 1.5 : 0} stroke-dasharray={point.unsure ? "4 3" : ""} />;
      })}
      {points.filter((point) => point.low !== undefined).map((point) => <Interval key={point.x} from={[middle(point), scales.y(Math.max(point.low!, scales.y.range[0]))]} to={[middle(point), scales.y(point.high!)]} colour={bars ? "--ink" : look.colour} upright />)}
      {marked.map((point) => <Mark key={`${point.x} ${point.y}`} shape={look.shape} colour={look.colour} hollow={point.unsure} x={middle(point)} y={scales.y(point.y)} />)}
    </g>
  );
}

const markEvery = 90; // pixels, for lines of many points

/** Where a line of many points has marks: far apart, and each line elsewhere, so that greyscale shows which is which. */
function marksOf(line: Line, scales: Scales, xs: number[], place: number): Point[] {
  if (line.gaps) {
    const known = new Set(line.points.map(({ x }) => x));
    return line.points.filter(({ x }) => !known.has(xs[xs.indexOf(x) - 1]!) && !known.has(xs[xs.indexOf(x) + 1]!)); // that no line leads to
  }
  const from = scales.x.valueAt(edge.left + 12 + 23 * (place % 4));
  return spaced(line.points.filter((point) => point.x >= from), (point) => scales.at(point.x), markEvery);
}

function pathOf({ points, gaps }: Line, scales: Scales, xs: number[]): string {
  let last = -2;
  return points.map((point) => {
    const index = gaps ? xs.indexOf(point.x) : last + 1;
    const to = last < -1 || index > last + 1 ? "M" : "L";
    last = gaps ? index : last < -1 ? 0 : last + 1;
    return `${to}${scales.at(point.x).toFixed(1)} ${scales.y(point.y).toFixed(1)}`;
  }).join("");
}

/** A vertical line, the band it is known to, and its name, in a line of its own. */
function Ruled({ rule, scale, line, width }: { rule: Rule; scale: Scale; line: number; width: number }) {
  const inside = (value: number) => Math.min(width - edge.right, Math.max(edge.left, scale(value)));
  const [x, colour] = [inside(rule.at), `var(${rule.look.colour})`];
  const late = x > width - 140;
  return (
    <g>
      {rule.low !== undefined && rule.high !== undefined && <rect x={inside(rule.low)} y={edge.top} width={inside(rule.high) - inside(rule.low)} height={height - edge.top - edge.bottom} fill={colour} opacity="0.12" />}
      <line x1={x} x2={x} y1={edge.top} y2={height - edge.bottom} stroke={colour} stroke-width="1.5" stroke-dasharray="4 4" />
      <text x={x + (late ? -6 : 6)} y={edge.top + 15 * (line + 1)} text-anchor={late ? "end" : "start"} style={{ fill: colour }}>{rule.text}</text>
    </g>
  );
}

function Tip({ x, y, lines, at, left, late }: { x: Axis; y: Axis; lines: Line[]; at: number; left: number; late: boolean }) {
  const known = lines.flatMap((line) => line.points.filter((point) => point.x === at).map((point) => ({ line, point })));
  known.sort((a, b) => b.point.y - a.point.y);
  return (
    <div class="tip" style={late ? { right: `calc(100% - ${left - 12}px)` } : { left: `${left + 12}px` }}>
      <b>{x.label} {x.show(at)}</b>
      {known.map(({ line, point }) => (
        <div key={`${line.name} ${point.y}`}>
          <Swatch look={line.look} /> <span>{line.name}</span> <em>{y.show(point.y)}</em>
          <small>{[point.low !== undefined ? `${y.show(point.low)} to ${y.show(point.high!)}` : point.unsure ? "no interval" : "", point.note].filter(Boolean).join("; ")}</small>
        </div>
      ))}
    </div>
  );
}

function Figures({ x, y, lines }: { x: Axis; y: Axis; lines: Line[] }) {
  const figure = ({ points }: Line, at: number) => {
    const there = points.filter((point) => point.x === at);
    return <>{there.map((point) => y.show(point.y)).join(", ") || "–"}{there[0]?.low !== undefined && <small> {y.show(there[0].low)} to {y.show(there[0].high!)}</small>}</>;
  };
  return <Grid titles={[x.label, ...lines.map((line) => `#${line.name}`)]} rows={xsOf(lines).map((at) => ({ key: at, cells: [x.show(at), ...lines.map((line) => figure(line, at))] }))} />;
}
