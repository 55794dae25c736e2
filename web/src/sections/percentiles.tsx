// Latency by percentile, on an axis where every nine takes the same room.

import { useMemo } from "preact/hooks";
import { Chart, type Axis, type Line } from "../chart";
import { namesOf, type Cell } from "../data";
import { micros, plain, short, sizes } from "../format";
import { dashOf, type Look } from "../look";
import { conditions, loadText } from "../words";

interface Props {
  cells: Cell[];
  looks: Map<string, Look>;
  picked: Set<string>;
  /** What the tail of a closed loop cannot see. */
  closedTail: string;
}

/** Whether a cell has a percentile besides its maximum. */
export const hasCurve = (cell: Cell) => cell.curve.length > 1;

/** The cells that stand at one point of the matrix. */
export function at(cells: Cell[], part: string, size: number, clients: number): Cell[] {
  return cells.filter((cell) => cell.part === part && cell.request_bytes === size && cell.clients === clients && hasCurve(cell));
}

const first = 0.1; // below are the fastest calls, which nobody asks for and which take half of the height
const nines = (quantile: number) => -Math.log10(1 - quantile);
const ticks = [first, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
const percent = (place: number) => `P${short((100 * (1 - 10 ** -place)).toFixed(Math.max(1, Math.ceil(place))))}`;

/** The axis on which every nine takes the same room. */
export function curveAxis(lines: Line[]): Axis {
  const last = Math.max(0, ...lines.flatMap((line) => line.points.map((point) => point.x)));
  return { label: "Percentile", log: false, range: [nines(first), Math.max(last, nines(0.9))], ticks: ticks.map(nines).filter((tick) => tick <= last), show: percent };
}

export function Percentiles({ cells, looks, picked, closedTail }: Props) {
  const shown = cells.filter((cell) => picked.has(cell.key) && hasCurve(cell));
  const chart = useMemo(() => {
    const lines = curvesOf(shown, looks);
    const x = curveAxis(lines);
    const y: Axis = { label: "Response time", log: true, show: (value) => micros(value) };
    return { x, y, lines, densities: densitiesOf(shown, looks) };
  }, [cells, picked]);
  return (
    <section id="percentiles">
      <h2>Latency by percentile</h2>
      <p class="note">The axis is stretched so that 90, 99 and 99.9 % are equally far apart. A line ends where fewer than ten requests are slower. The filter chooses the point; ticks in the table of cells add others.</p>
      {closedTail && <p class="note">{closedTail}</p>}
      {shown.length > 0
        ? <Chart title={titleOf(shown)} note={conditions(shown)} x={chart.x} y={chart.y} lines={chart.lines} />
        : <p class="note">No cell is ticked.</p>}
      {chart.densities.length > 0 && (
        <Chart title={`Distribution of latency${titleOf(shown).replace("Latency by percentile", "")}`} note="The share of calls in each step of latency, with twelve steps per doubling. One hump is one kind of call; two humps are two kinds, for example calls that met a pause, a queue or another path. The fastest and the slowest of 2,000 calls are left out, and so are cells with fewer than 1,000 calls."
          x={density.x} y={density.y} lines={chart.densities} />
      )}
    </section>
  );
}

const density: { x: Axis; y: Axis } = {
  x: { label: "Response time", log: true, show: (us) => micros(us) },
  y: { label: "Share of calls", log: false, show: (share) => `${short((100 * share).toFixed(2))} %` },
};

/** The cells that are drawn, each as a line over all steps that any of them has. */
function densitiesOf(cells: Cell[], looks: Map<string, Look>): Line[] {
  const drawn = cells.filter((cell) => cell.density.length > 0);
  const shapes = curvesOf(drawn, looks);
  return drawn.map((cell, i) => ({ ...shapes[i]!, points: cell.density.map(([us, share]) => ({ x: us, y: share })) }));
}

function titleOf(cells: Cell[]): string {
  const points = new Set(cells.map((cell) => `${sizes(cell.request_bytes, cell.response_bytes)}, ${plain(cell.clients)} client${cell.clients === 1 ? "" : "s"}`));
  return points.size === 1 ? `Latency by percentile, ${[...points][0]}` : "Latency by percentile";
}

/** Their percentile curves. */
export function curvesOf(cells: Cell[], looks: Map<string, Look>): Line[] {
  const names = namesOf(cells, (cell) => [cell.part, sizes(cell.request_bytes, cell.response_bytes), `c=${cell.clients}`, cell.workload, cell.connection, loadText(cell.load)]);
  const seen = new Map<string, number>();
  return cells.map((cell) => {
    const look = looks.get(cell.variant)!;
    const place = seen.get(cell.variant) ?? 0;
    seen.set(cell.variant, place + 1);
    return {
      name: names.get(cell)!,
      look: place === 0 ? look : { ...look, dash: dashOf(look.dash.length === 0 ? place : place + 1) },
      thin: true,
      points: cell.curve.filter(([quantile]) => quantile >= first && quantile < 1).map(([quantile, us]) => ({ x: nines(quantile), y: us })),
    };
  });
}
