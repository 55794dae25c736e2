// The machines that measured, where agents of a fleet ran the ends.

import { Grid, Table } from "../export";
import type { Cell, Run } from "../data";
import { micros, percent, perSecond, plain } from "../format";
import { counted } from "../words";

export function Machines({ run }: { run: Run }) {
  if (!run.fleet) return null;
  const only = run.cells.length === 1 ? run.cells[0]! : null;
  return (
    <section id="machines">
      <h2>Machines</h2>
      <p class="note">Agents of a fleet ran the clients and the server. Each latency is measured on one machine's clock. The clocks were compared before and after each trial, so that the windows could open together: they opened {run.fleet.opened_apart_us ? `within ${micros(run.fleet.opened_apart_us)}` : "at one instant"}. Offsets are from after the last trial, errors are the largest of all trials.</p>
      <Table name="Machines" titles={["Agent", "Role", "Labels", "~Machine", "#Trials", "#Clock ahead by", "#±"]} rows={run.fleet.agents.map((agent) => ({
        key: `${agent.role} ${agent.name}`,
        cells: [agent.name, agent.role, agent.labels.join(", ") || "–", agent.machine, plain(agent.trials), signed(agent.clock_offset_us), micros(agent.clock_error_us)],
      }))} />
      {only ? <div class="scroll" tabIndex={0}><FleetClients cell={only} /></div> : <p class="note">Click a row in the table of cells to see what each client did.</p>}
    </section>
  );
}

function signed(us: number): string {
  return us < 0 ? `−${micros(-us)}` : micros(us);
}

/** What each of a cell's clients did; nothing where one machine's made all calls. */
export function FleetClients({ cell }: { cell: Cell }) {
  const { fleet_clients: clients } = cell;
  if (!clients || clients.length === 0) return null;
  return (
    <Grid class="fleet" caption={<>Its {counted(clients.length, "machine")} with clients</>} titles={["Agent", "#Clients", "#Throughput", "#P50", "#P99", "#CPU per request", "#CPUs busy", "~Verdict"]} rows={clients.map((client) => ({
      key: client.agent, className: client.level === "invalid" ? "invalid" : "",
      cells: [client.agent, plain(client.clients), perSecond(client.throughput_rps), micros(client.p50_us), micros(client.p99_us), micros(client.cpu_us), percent(client.busy_share), <>{client.level}{client.detail && `: ${client.detail}`}</>],
    }))} />
  );
}
