// How throughput follows the calls in flight, what it would be if each call ran
// as it does alone, and what keeps it from that.

import { Table } from "../export";
import { useMemo } from "preact/hooks";
import { around } from "../marks";
import { Chart, type Axis, type Line } from "../chart";
import { type Run, type Scaling, variantTitle } from "../data";
import { perSecond, plain, sizes, withInterval } from "../format";
import type { Look } from "../look";

export function Scalings({ run, looks }: { run: Run; looks: Map<string, Look> }) {
  const groups = useMemo(() => [...Map.groupBy(run.scalings, (scaling) => [scaling.part, scaling.workload, scaling.request_bytes, scaling.response_bytes].join("\n")).values()], [run]);
  return (
    <section id="scaling">
      <h2>Calls in flight</h2>
      {groups.map((group) => <Group key={group[0]!.part + group[0]!.workload} scalings={group} looks={looks} />)}
    </section>
  );
}

const nameOf = (scaling: Pick<Scaling, "variant" | "connection">) => (scaling.variant.includes("conn=") ? scaling.variant : `${scaling.variant} ${scaling.connection}`);

function Group({ scalings, looks }: { scalings: Scaling[]; looks: Map<string, Look> }) {
  const { workload, request_bytes: request, response_bytes: response } = scalings[0]!;
  const what = request + response > 0 ? `${workload}, ${sizes(request, response)} messages` : workload;
  const chart = useMemo(() => chartOf(scalings, looks), [scalings]);
  return (
    <>
      <ul class="findings">{scalings.map((scaling) => <li key={scaling.variant}>{scaling.diagnosis.text}</li>)}</ul>
      <Chart
        title={`Throughput against calls in flight, ${what}`}
        note="Dashed: the ideal, which is the throughput of one call at a time multiplied by the calls in flight; the chart cuts it off at the top. Dotted: the fitted scalability law. Bars are intervals over the trials."
        x={chart.x} y={chart.y} lines={chart.lines}
      />
      <Grounds scalings={scalings} />
    </>
  );
}

const headroom = 2; // above what was measured, for the ideal to be seen leaving

function chartOf(scalings: Scaling[], looks: Map<string, Look>): { x: Axis; y: Axis; lines: Line[] } {
  const lines = scalings.flatMap((scaling): Line[] => {
    const look: Look = { ...looks.get(scaling.variant)!, dash: [] }; // dashes tell the kinds of lines here
    const name = nameOf(scaling);
    const through = (of: "ideal_rps" | "law_rps") => scaling.points.filter((point) => point[of] !== null).map((point) => ({ x: point.clients, y: point[of]! }));
    return [
      {
        name, look,
        points: scaling.points.filter((point) => point.throughput_rps !== null).map((point) => ({
          x: point.clients, y: point.throughput_rps!, low: point.intervals["throughput_rps"]?.low, high: point.intervals["throughput_rps"]?.high, unsure: !point.intervals["throughput_rps"],
        })),
      },
      { name: `${name}, law`, look: { ...look, dash: [2, 3] }, points: through("law_rps"), thin: true, beside: true },
      { name: `${name}, ideal`, look: { ...look, dash: [7, 4] }, points: through("ideal_rps"), thin: true, beside: true },
    ].filter((line) => line.points.length > 0);
  });
  const ticks = [...new Set(scalings.flatMap((scaling) => scaling.points.map((point) => point.clients)))].sort((a, b) => a - b);
  const measured = lines.filter((line) => !line.beside).flatMap((line) => line.points.flatMap((point) => [point.y, point.high ?? point.y]));
  const [low, high] = around(measured, true);
  return {
    lines,
    x: { label: "Calls in flight", log: true, ticks, show: plain },
    y: { label: "Throughput", log: true, range: [low, high * headroom], show: perSecond },
  };
}

/** The figures that the diagnoses rest on, and the fitted law's. */
function Grounds({ scalings }: { scalings: Scaling[] }) {
  const share = (value: number | null) => (value === null ? "–" : `${Math.round(100 * value)} %`);
  return (
    <>
      <p class="note">The evidence, at the most calls in flight: connections opened; requests per system call and per segment; and the share of time in which a connection had nothing in flight, or waited for the other side's window or a full buffer.</p>
      <Table name="Scaling" titles={[variantTitle, "#Opened", "#In flight", "#Of the ideal", "#A write", "#A segment", "#Nothing in flight", "#Held back", "#Client busy", "#Server busy", "~Law: contention σ, coherency κ, peak"]}
        rows={scalings.map(({ diagnosis: seen, law, ...scaling }) => ({
          key: scaling.variant + scaling.connection, cells: [
            nameOf(scaling), plain(seen.connections), plain(seen.in_flight), share(scaling.points.at(-1)!.share_of_ideal),
            plain(seen.requests_per_write), plain(seen.requests_per_segment), share(seen.idle_share), share(seen.blocked_share), share(seen.client_busy), share(seen.server_busy),
            law
              ? `${withInterval(law.contention, law.intervals["contention"], small)}, ${withInterval(law.coherency, law.intervals["coherency"], small)}, ${law.peak === null ? "no peak in reach" : withInterval(law.peak, law.intervals["peak"], plain)}`
              : `none: ${scaling.reason}`,
          ],
        }))} />
    </>
  );
}

/** A coefficient, which is far below one. */
function small(value: number | null): string {
  return value === null ? "–" : String(Number(value.toPrecision(3)));
}
