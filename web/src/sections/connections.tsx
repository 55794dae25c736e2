// How connections lived: who survives when everybody reconnects, at what price,
// and what resumption buys.

import { Table } from "../export";
import { useMemo } from "preact/hooks";
import { type Cell, type Run, variantTitle } from "../data";
import { micros, percent, plain } from "../format";
import type { Look } from "../look";
import { clientCPU, handshakeP50, latencyMetrics, serverCPU, serverPeak, survival, throughput, type Metric } from "../metrics";
import { Name } from "../name";
import { pointOf } from "../points";
import { Against } from "./against";
import { contrastsAt, Contrasts } from "./choices";

interface Props {
  run: Run;
  looks: Map<string, Look>;
}

const lives = (cell: Cell) => cell.connections.per_request || cell.connections.secure;

/** Whether the run asked about connections at all. */
export function hasConnections(run: Run): boolean {
  return run.cells.some(lives);
}

const perRequest = ["new", "resumed", "0rtt"];

export function Connections({ run, looks }: Props) {
  const cells = useMemo(() => run.cells.filter(lives), [run]);
  // What is asked first is who survives a storm, and what resuming buys.
  const storm = run.contrasts.find((contrast) => contrast.option === "conn")?.part ?? cells.find((cell) => perRequest.includes(cell.connection))?.part;
  const point = pointOf(cells, storm);
  const p99 = useMemo(() => latencyMetrics("response_us").find(({ id }) => id === "p99")!, []);
  const further = useMemo(() => [survival, throughput, p99, handshakeP50, clientCPU, serverCPU, serverPeak], []);
  if (cells.length === 0) return null;
  const reused = contrastsAt(run, point.cells).filter(({ option }) => option === "conn");
  return (
    <section id="connections">
      <h2>Connections</h2>
      <p class="note">How many requests are answered if each opens its own connection, and at what cost. “Answered” counts all measured trials, including refused ones; handshakes in the window are counted from the state of TLS and QUIC.</p>
      {point.where}
      <Storm cells={point.cells} looks={looks} p99={p99} />
      <p class="note">With {point.text}. CPU is per request at each end; memory is the server's maximum. Opened: connections by kind of handshake; “early” means that the server accepted early data. As asked: the share of connections that began as their mode says, if not all did. Intervals are in the table of cells.</p>
      <Against across="clients" cells={cells} looks={looks} further={further} onlyFurther />
      {reused.length > 0 && (
        <>
          <h3>What resumption saves</h3>
          <p class="note">The same stack with {point.text}, repeat by repeat: the figure of one mode divided by the figure of another. CPU is the sum of client and server.</p>
          <Contrasts run={run} contrasts={reused} />
        </>
      )}
    </section>
  );
}

function Storm({ cells, looks, p99 }: { cells: Cell[]; looks: Map<string, Look>; p99: Metric }) {
  const figures = [throughput, p99, clientCPU, serverCPU, serverPeak].filter((metric) => cells.some((cell) => metric.value(cell) !== null));
  const asIs = cells.every(({ connections: { achieved, differs } }) => achieved === 1 && !differs);
  return (
    <Table name="Connections" class="storm" titles={[variantTitle, "#Answered", !asIs && "#As asked", ...figures.map((metric) => `#${metric.label}`), "#Handshake", "#Opened"]} rows={cells.map((cell) => {
      const { connections: made } = cell;
      return {
        key: cell.key, className: cell.valid ? "" : "invalid", cells: [
          <Name cell={cell} looks={looks} />, <Answered cell={cell} />,
          <span class={made.differs ? "differs" : ""}>{made.achieved === null ? (made.differs ? "no" : "–") : percent(made.achieved)}{made.differs && <small class="interval">{cell.connection}</small>}</span>,
          ...figures.map((metric) => {
            const interval = metric.interval(cell);
            return <span title={interval && `${metric.show(interval.low)} to ${metric.show(interval.high)}`}>{metric.show(metric.value(cell))}</span>;
          }),
          <>{micros(made.handshake_us.p50)}{made.handshake_us.p99 !== null && <small class="interval">P99 {micros(made.handshake_us.p99)}</small>}</>,
          <>{plain(made.during)}<small class="interval">{handshakes(cell)}</small></>,
        ],
      };
    })} />
  );
}

/** What the handshakes were, as far as there were any. */
function handshakes({ connections: made }: Cell): string {
  const kinds: [number, string][] = [[made.full, "full"], [made.resumed, "resumed"], [made.early, "early"], [made.early_refused, "refused"], [made.handshake_failed, "failed"]];
  return kinds.filter(([count]) => count > 0).map(([count, kind]) => `${plain(count)} ${kind}`).join(", ");
}

/** The share, with a bar behind it that is red where something is missing. */
function Answered({ cell }: { cell: Cell }) {
  const { share, succeeded, requests } = cell.survival;
  return (
    <div class={`answered ${share !== null && share < 1 ? "lost" : ""}`} title={`${plain(succeeded)} of ${plain(requests)} requests`}>
      {percent(share)}
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect width="100" height="4" /><rect class="share" width={100 * (share ?? 0)} height="4" /></svg>
    </div>
  );
}
