// What was answered, what failed, and over which connections.

import { Table } from "../export";
import type { Cell } from "../data";
import { micros, percent, plain } from "../format";
import type { AtPoint } from "../points";
import { counted } from "../words";

export function Answers({ point }: { point: AtPoint }) {
  return (
    <section id="answers">
      <h2>Answers</h2>
      {point.where}
      {point.cells.map((cell) => (
        <div class="of-call" key={cell.key}>
          {point.cells.length > 1 && <h3>{cell.said}</h3>}
          <p>{sayFailures(cell)}</p>
          <Statuses cell={cell} />
          <Errors cell={cell} />
          <dl class="host">
            {cell.facts.map(({ name, text }) => <><dt>{name}</dt><dd>{text}</dd></>)}
          </dl>
        </div>
      ))}
    </section>
  );
}

function sayFailures({ survival: { requests, succeeded } }: Cell): string {
  const failed = requests - succeeded;
  if (requests === 0) return "No request was answered.";
  if (failed === 0) return `None of ${counted(requests, "call")} failed.`;
  return `${plain(failed)} of ${counted(requests, "call")} failed: ${percent(failed / requests)}.`;
}

function Statuses({ cell: { statuses = [] } }: { cell: Cell }) {
  if (statuses.length === 0) return null;
  const all = statuses.reduce((sum, { count }) => sum + count, 0);
  return (
    <Table name="Statuses" class="statuses" titles={["Status", "#Answers", "Share"]} rows={statuses.map(({ name, count, bad }) => ({
      key: name, cells: [
        name, plain(count),
        <span class={bad ? "answered lost" : "answered"}>
          {percent(count / all)}
          <svg viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true"><rect width="100" height="3" /><rect class="share" width={Math.max(1, (100 * count) / all)} height="3" /></svg>
        </span>,
      ],
    }))} />
  );
}

function Errors({ cell }: { cell: Cell }) {
  const { failures } = cell.survival;
  if (failures.length === 0) return null;
  return (
    <Table name="Errors" class="errors" titles={["Error of the failed calls", "Code", "#Calls", "~The first of them"]} rows={failures.map((failure) => ({
      key: `${failure.class} ${failure.code}`, cells: [
          failure.class === "application" ? "an answer that reports an error" : failure.class || "–", failure.code, plain(failure.count),
          <q>{failure.example}</q>,
      ],
    }))} />
  );
}

/** The connections that the calls went over. */
export function Opened({ point }: { point: AtPoint }) {
  return (
    <section id="opened">
      <h2>Connections</h2>
      {point.where}
      {point.cells.map((cell) => (
        <div class="of-call" key={cell.key}>
          {point.cells.length > 1 && <h3>{cell.said}</h3>}
          <p>{sayOpened(cell)}</p>
          <dl class="host">
            <dt>Speaks</dt>
            <dd>{spoken(cell)}</dd>
            {cell.connections.connect_us.p50 !== null && <><dt>TCP connect, P50</dt><dd>{micros(cell.connections.connect_us.p50)}</dd></>}
            {cell.connections.handshake_us.p50 !== null && <><dt>Handshake, P50</dt><dd>{micros(cell.connections.handshake_us.p50)}</dd></>}
          </dl>
        </div>
      ))}
    </section>
  );
}

const modes: Record<string, string> = { shared: "All clients shared one connection", "per-worker": "Every client had a connection of its own", new: "Every call opened a connection of its own" };

function sayOpened({ connection, connections: made, connections_opened: opened }: Cell): string {
  const mode = modes[connection] ?? `The connections were kept as ${connection} says`;
  const during = made.per_request
    ? ""
    : made.during === 0
      ? ", and none had to be opened again in the window"
      : `; ${plain(made.during)} of them were opened in the window, after the service, or a proxy in front of it, had closed theirs`;
  const failed = made.failed > 0 ? ` ${counted(made.failed, "attempt")} to connect failed.` : "";
  return `${mode}: ${opened === null ? "" : `${plain(opened)} opened`}${during}.${failed}`;
}

function spoken({ connections: { negotiated } }: Cell): string {
  const names: Record<string, string> = { h1: "HTTP/1.1", h2: "HTTP/2", h3: "HTTP/3" };
  const protocol = names[negotiated.protocol] ?? (negotiated.protocol || "not known");
  const session = negotiated.sessions[0];
  return session ? `${protocol}, ${session.version}, ${session.cipher}${session.group && `, ${session.group}`}` : `${protocol}, in cleartext`;
}
