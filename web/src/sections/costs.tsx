// What a request takes: of both ends, and of the network.

import { Grid, Scroll, Table } from "../export";
import { useMemo } from "preact/hooks";
import { Bars, type Bar } from "../bars";
import { figures, type Cell, type Direction, type End, type Run, type WireBytes, variantTitle } from "../data";
import { bytes, micros, plain } from "../format";
import type { Look } from "../look";
import { Name } from "../name";
import { pointOf } from "../points";
import { modeBeside } from "../words";

interface Props {
  run: Run;
  looks: Map<string, Look>;
}

// Of a service that no trial is valid of, the page shows all the same what it cost.
const measuredEnds = (cell: Cell) => (cell.valid || cell.said !== "") && (cell.client_cpu_us !== null || cell.server_cpu_us !== null || cell.server.peak_bytes !== null);

export function hasEnds(run: Run): boolean {
  return run.cells.some(measuredEnds);
}

const bounds = { "server-cpu": "server CPU", "client-cpu": "client CPU", waiting: "waiting", "": "–" };

const endUnits = { share: percentRound, bytes, us: micros, rps: plain, "": whole };

/** The figures of an end, each beside the other end's. */
const endFigures = figures.filter(({ path }) => path.startsWith("client.")).map(({ path, label, unit }) => (
  { title: label, of: (end: End) => end[path.slice("client.".length) as keyof End], show: endUnits[unit] }
));

export function Ends({ run, looks }: Props) {
  const cells = useMemo(() => run.cells.filter(measuredEnds), [run]);
  const point = pointOf(cells);
  if (cells.length === 0) return null;
  const shown = endFigures.filter(({ of }) => point.cells.some((cell) => of(cell.client) !== null || of(cell.server) !== null));
  const alone = point.cells.length === 1 && point.cells[0]!.said !== "" ? point.cells[0] : undefined;
  return (
    <section id="ends">
      <h2>Both ends</h2>
      <p class="note">{alone ? "“Its own” memory leaves out pages of files, which are mostly the program itself." : <>The cost of a request at the client and at the server. Memory is measured at the end of the window; “own” is its maximum without pages of files, which are mostly the program itself; threads, sockets and goroutines are maxima. A closed loop is limited by the CPU of one end, or by waiting if both have CPU to spare and the clients are always in a call.</>}</p>
      {point.where}
      <Bars
        title={`CPU time per request, ${point.text}`}
        bars={point.cells.map((cell) => ({
          name: cell.variant, note: modeBeside(cell), total: `${micros(cell.client_cpu_us)} + ${micros(cell.server_cpu_us)}`,
          segments: [{ name: "Client", value: cell.client_cpu_us, colour: "--end-client" }, { name: "Server", value: cell.server_cpu_us, colour: "--end-server" }],
        }))}
        show={micros}
      />
      {alone ? <OfOne cell={alone} shown={shown} /> : <Scroll name="Both ends">
        <table>
          <thead>
            <tr>
              <th scope="col" rowSpan={2}>{variantTitle}</th>
              <th scope="col" rowSpan={2}>Bound by</th>
              {shown.map(({ title }) => <th scope="col" colSpan={2} class="group" key={title}>{title}</th>)}
            </tr>
            <tr>{shown.map(({ title }) => <><th scope="col" class="number" key={title}>Client</th><th scope="col" class="number">Server</th></>)}</tr>
          </thead>
          <tbody>
            {point.cells.map((cell) => (
              <tr key={cell.key}>
                <th scope="row"><Name cell={cell} looks={looks} /></th>
                <td>{bounds[cell.bound]}</td>
                {shown.map(({ title, of, show }) => <><td class="number" key={title}>{show(of(cell.client))}</td><td class="number">{show(of(cell.server))}</td></>)}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>}
    </section>
  );
}

/** The figures of one service, line by line, which fit a narrow screen. */
function OfOne({ cell, shown }: { cell: Cell; shown: typeof endFigures }) {
  return (
    <Grid class="both" titles={[cell.bound ? `Bound by: ${bounds[cell.bound]}` : "Figure", "#Client", "#Service"]}
      rows={shown.map(({ title, of, show }) => ({ key: title, cells: [title, show(of(cell.client)), show(of(cell.server))] }))} />
  );
}

function percentRound(share: number | null): string {
  return share === null ? "–" : `${Math.round(100 * share)} %`;
}

function whole(count: number | null): string {
  return count === null ? "–" : plain(Math.round(count));
}

export function hasBytes(run: Run): boolean {
  return run.cells.some((cell) => cell.valid && (cell.traffic || cell.wire));
}

const layers: [name: string, of: (wire: WireBytes) => number | null, colour: string][] = [
  ["Message", (wire) => wire.message_bytes, "--layer-0"],
  ["Headers, framing", (wire) => wire.protocol_bytes, "--layer-1"],
  ["TLS or QUIC", (wire) => wire.security_bytes, "--layer-2"],
  ["TCP or UDP, IP", (wire) => wire.transport_bytes, "--layer-3"],
  ["Acknowledgements", (wire) => wire.ack_bytes, "--layer-4"],
];

export function Bytes({ run, looks }: Props) {
  const cells = useMemo(() => run.cells.filter((cell) => cell.valid && (cell.traffic || cell.wire)), [run]);
  const point = pointOf(cells);
  if (cells.length === 0) return null;
  const bars = point.cells.filter(({ wire }) => wire).flatMap((cell) => [barOf(cell, "request", cell.wire!.request), barOf(cell, "response", cell.wire!.response)]);
  return (
    <section id="bytes">
      <h2>On the wire</h2>
      {point.where}
      {bars.length > 0 && (
        <Bars title={`One call, layer by layer, ${point.size} messages`}
          note="Calls made one at a time after the window. A layer that could not be separated is part of the one above it. The table has the cost of a connection besides its calls."
          bars={bars} show={bytes} />
      )}
      <Traffic cells={point.cells.filter(({ traffic }) => traffic)} looks={looks} />
      <Opening cells={point.cells.filter(({ wire }) => wire)} looks={looks} />
    </section>
  );
}

function barOf(cell: Cell, note: string, wire: WireBytes): Bar {
  return {
    name: cell.variant, note: [modeBeside(cell), note].filter(Boolean).join(", "), total: bytes(wire.total_bytes),
    segments: layers.map(([name, of, colour]) => ({ name, value: of(wire), colour })),
  };
}

function Traffic({ cells, looks }: { cells: Cell[]; looks: Map<string, Look> }) {
  if (cells.length === 0) return null;
  const ways: ["sent" | "received", string][] = [["sent", "Sent"], ["received", "Received"]];
  const figures: [string, (way: Direction) => number | null, (value: number | null) => string][] = [
    ["Bytes", (way) => way.bytes, bytes],
    ["Handshake", (way) => way.handshake, bytes],
    ["Packets", (way) => way.packets, plain],
    ["A system call", (way) => way.packets_per_call, plain],
  ];
  const shown = figures.filter(([, of]) => cells.some(({ traffic }) => of(traffic!.sent) !== null || of(traffic!.received) !== null));
  return (
    <>
      <p class="note">Per request, over the connections in the window and below TLS: bytes, packets, packets per system call, losses per thousand requests, and the transport's own round-trip time.</p>
      <Scroll name="Traffic">
        <table>
          <thead>
            <tr>
              <th scope="col" rowSpan={2}>{variantTitle}</th>
              {ways.map(([, title]) => <th scope="col" colSpan={shown.length} class="group" key={title}>{title} by the client</th>)}
              <th scope="col" rowSpan={2} class="number">Lost</th>
              <th scope="col" rowSpan={2} class="number">RTT</th>
              <th scope="col" rowSpan={2} class="number">Least RTT</th>
              <th scope="col" rowSpan={2}>Offload</th>
            </tr>
            <tr>{ways.map(([way]) => shown.map(([title]) => <th scope="col" class="number" key={way + title}>{title}</th>))}</tr>
          </thead>
          <tbody>
            {cells.map((cell) => {
              const traffic = cell.traffic!;
              return (
                <tr key={cell.key}>
                  <th scope="row"><Name cell={cell} looks={looks} /></th>
                  {ways.map(([way]) => shown.map(([title, of, show]) => <td class="number" key={way + title}>{show(of(traffic[way]))}</td>))}
                  <td class="number">{plain(traffic.retransmits_per_thousand)}</td>
                  <td class="number">{micros(traffic.rtt_us)}</td>
                  <td class="number">{micros(traffic.min_rtt_us)}</td>
                  <td>{[traffic.transport, traffic.offload].filter(Boolean).join(", ")}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

/** What a connection costs besides its calls. */
function Opening({ cells, looks }: { cells: Cell[]; looks: Map<string, Look> }) {
  if (cells.length === 0) return null;
  return (
    <>
      <p class="note">The cost of a connection besides its calls, and the time of its first call.</p>
      <Table name="Opening a connection" titles={[variantTitle, "#Handshake, sent", "#Received", "#First call, sent", "#Received"]} rows={cells.map((cell) => ({
        key: cell.key, cells: [<Name cell={cell} looks={looks} />, ...[cell.wire!.handshake_sent_bytes, cell.wire!.handshake_received_bytes, cell.wire!.first_sent_bytes, cell.wire!.first_received_bytes].map(bytes)],
      }))} />
    </>
  );
}
