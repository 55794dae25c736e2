// The machines that measured, where agents of a fleet ran the ends.

import { Head, Scroll } from "../export";
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
      <Scroll name="Machines">
        <table>
          <Head titles={["Agent", "Role", "Labels", "Machine", "#Trials", "#Clock ahead by", "#±"]} />
          <tbody>
            {run.fleet.agents.map((agent) => (
              <tr key={`${agent.role} ${agent.name}`}>
                <th scope="row">{agent.name}</th>
                <td>{agent.role}</td>
                <td>{agent.labels.join(", ") || "–"}</td>
                <td class="prose">{agent.machine}</td>
                <td class="number">{plain(agent.trials)}</td>
                <td class="number">{signed(agent.clock_offset_us)}</td>
                <td class="number">{micros(agent.clock_error_us)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
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
    <table class="fleet">
      <caption>Its {counted(clients.length, "machine")} with clients</caption>
      <Head titles={["Agent", "#Clients", "#Throughput", "#P50", "#P99", "#CPU per request", "#CPUs busy", "Verdict"]} />
      <tbody>
        {clients.map((client) => (
          <tr key={client.agent} class={client.level === "invalid" ? "invalid" : ""}>
            <th scope="row">{client.agent}</th>
            <td class="number">{plain(client.clients)}</td>
            <td class="number">{perSecond(client.throughput_rps)}</td>
            <td class="number">{micros(client.p50_us)}</td>
            <td class="number">{micros(client.p99_us)}</td>
            <td class="number">{micros(client.cpu_us)}</td>
            <td class="number">{percent(client.busy_share)}</td>
            <td class="prose">{client.level}{client.detail && `: ${client.detail}`}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
