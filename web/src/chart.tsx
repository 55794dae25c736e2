// One chart of lines over a common x axis. It hides uPlot: what is given is
// plain points with their intervals, and what comes with every chart is a name
// for those who cannot see it, values under the pointer or the arrow keys, and
// its figures as a table.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { paint, type Axis, type Line, type Painted, type Point, type Rule } from "./plot";
import { Swatch } from "./swatch";

export type { Axis, Line, Point, Rule };

interface Props {
  title: string;
  note?: string;
  x: Axis;
  y: Axis;
  lines: Line[];
  rules?: Rule[];
}

export function Chart({ title, note, x, y, lines, rules = [] }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const painted = useRef<Painted>(null);
  const [hover, setHover] = useState<{ index: number; left: number } | null>(null);
  const xs = useMemo(() => [...new Set(lines.flatMap((line) => line.points.map((point) => point.x)))].sort((a, b) => a - b), [lines]);

  useEffect(() => {
    const chart = paint(holder.current!, { x, y, lines, rules, xs }, setHover);
    painted.current = chart;
    return () => chart.remove();
  }, [x, y, lines, rules, xs]);

  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const from = hover?.index ?? (by > 0 ? -1 : xs.length);
    painted.current?.pointAt(Math.min(xs.length - 1, Math.max(0, from + by)));
  };

  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        {note && <p class="note">{note}</p>}
      </figcaption>
      <ul class="legend">
        {lines.filter((line) => !line.beside).map((line) => (
          <li key={line.name}>
            <Swatch look={line.look} apart={line.apart} /> {line.name}
          </li>
        ))}
        {x.shaded && x.range && x.shadedTo! > x.range[0] && <li><i class="shaded" aria-hidden="true" /> {x.shaded}</li>}
      </ul>
      <div class="y-label" aria-hidden="true">{y.label}</div>
      <div class="plot" ref={holder} role="img" tabIndex={0} onKeyDown={step} onBlur={() => setHover(null)}
        aria-label={`${title}. ${y.label} against ${x.label} for ${lines.map((line) => line.name).join(", ")}. The figures are in the table below.`}>
        {hover && <Tip x={x} y={y} lines={lines} at={xs[hover.index]!} left={hover.left} />}
      </div>
      <details>
        <summary>Figures of this chart</summary>
        <div class="scroll" tabIndex={0}>
          <Figures x={x} y={y} lines={lines} xs={xs} />
        </div>
      </details>
    </figure>
  );
}

function Tip({ x, y, lines, at, left }: { x: Axis; y: Axis; lines: Line[]; at: number; left: number }) {
  const known = lines.flatMap((line) => line.points.filter((point) => point.x === at).map((point) => ({ line, point })));
  known.sort((a, b) => b.point.y - a.point.y);
  return (
    <div class="tip" style={{ left: `clamp(7rem, ${left}px, 100% - 7rem)` }}>
      <b>{x.label} {x.show(at)}</b>
      {known.map(({ line, point }) => (
        <div key={`${line.name} ${point.y}`}>
          <Swatch look={line.look} /> <span>{line.name}</span> <em>{y.show(point.y)}</em>
        </div>
      ))}
    </div>
  );
}

function Figures({ x, y, lines, xs }: { x: Axis; y: Axis; lines: Line[]; xs: number[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{x.label}</th>
          {lines.map((line) => <th scope="col" key={line.name} class="number">{line.name}</th>)}
        </tr>
      </thead>
      <tbody>
        {xs.map((at) => (
          <tr key={at}>
            <th scope="row">{x.show(at)}</th>
            {lines.map((line) => {
              const points = line.points.filter((candidate) => candidate.x === at);
              return (
                <td key={line.name} class="number">
                  {points.map((point) => y.show(point.y)).join(", ") || "–"}
                  {points[0]?.low !== undefined && <small> {y.show(points[0].low)} to {y.show(points[0].high!)}</small>}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
