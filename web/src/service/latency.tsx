// How the times of all calls are spread.

import { useMemo } from "preact/hooks";
import { Chart, type Axis } from "../chart";
import { micros, plain } from "../format";
import type { Look } from "../look";
import type { AtPoint } from "../points";
import { curveAxis, curvesOf } from "../sections/percentiles";

interface Props {
  point: AtPoint;
  looks: Map<string, Look>;
  closedTail: string; // what the tail of a closed loop cannot see
}

const x: Axis = { label: "Response time", log: true, show: (us) => micros(us) };
const y: Axis = { label: "Response time", log: true, show: (us) => micros(us) };

export function Latency({ point, looks, closedTail }: Props) {
  const chosen = point.cells.map((cell) => cell.key).join();
  const spreads = useMemo(() => point.cells.filter((cell) => cell.spread.length > 0).map((cell) => ({
    name: cell.said, look: looks.get(cell.variant)!, bars: true, thin: true,
    points: cell.spread.map(({ us, requests }) => ({ x: us, y: requests })),
  })), [chosen]);
  const curves = useMemo(() => curvesOf(point.cells.filter((cell) => cell.curve.length > 1), looks), [chosen]);
  const most = 1.06 * Math.max(0, ...spreads.flatMap(({ points }) => points.map((at) => at.y)));
  const count = useMemo((): Axis => ({ label: "Requests", log: false, show: plain, range: [0, most || 1] }), [most]);
  const quantiles = useMemo(() => curveAxis(curves), [curves]);
  if (spreads.length === 0) return null;
  const apart = point.cells.some((cell) => cell.response_apart);
  return (
    <section id="latency">
      <h2>Latency</h2>
      <p class="note">{apart
        ? "Response time begins when a request was due, so it includes the wait for a free client."
        : "From sending a request to its answer."} All measured calls, including failed ones.</p>
      {closedTail && <p class="note">{closedTail}</p>}
      {point.where}
      <Chart title="How many calls took how long" note="In steps of a constant factor. A second hump is another kind of call, such as those that met a stall." x={x} y={count} lines={spreads} />
      {curves.length > 0 && <Chart title="Latency by percentile" note="The line ends where fewer than ten calls are slower." x={quantiles} y={y} lines={curves} />}
    </section>
  );
}
