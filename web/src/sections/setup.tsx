// What went wrong, and what was set otherwise than a library or the machine
// has it.

import { Head, Scroll } from "../export";
import { type Run, variantTitle } from "../data";
import { plain, sizes } from "../format";
import { Manifest } from "./manifest";

export function Failures({ run }: { run: Run }) {
  const rows = run.cells.flatMap((cell) => cell.survival.failures.map((failure) => ({ cell, failure })));
  if (rows.length === 0) return null;
  return (
    <section id="failures">
      <h2>Failures</h2>
      <p class="note">Failed requests by class of error, over all measured trials, with the first error of each class word for word.</p>
      <Scroll name="Failures" tall>
        <table>
          <Head titles={["Class", "Code", "#Requests", "#Of", variantTitle, "Connection", "#Clients", "#Size", "First"]} />
          <tbody>
            {rows.map(({ cell, failure }) => (
              <tr key={`${cell.key} ${failure.class} ${failure.code}`}>
                <th scope="row">{failure.class || "–"}</th>
                <td>{failure.code}</td>
                <td class="number">{plain(failure.count)}</td>
                <td class="number">{plain(cell.survival.requests)}</td>
                <td>{cell.variant}</td>
                <td>{cell.connection}</td>
                <td class="number">{plain(cell.clients)}</td>
                <td class="number">{sizes(cell.request_bytes, cell.response_bytes)}</td>
                <td class="prose"><q>{failure.example}</q></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

export function Setup({ run }: { run: Run }) {
  const { settings, machine_limits: limits } = run;
  if (settings.length + limits.length === 0) return null;
  return (
    <section id="setup">
      <h2>Set-up</h2>
      {settings.length > 0 && <Manifest run={run} />}
      {limits.length > 0 && (
        <>
          <p class="note">The machine's limits, each in the trial that came nearest to it.</p>
          <Scroll name="Limits of the machine">
            <table>
              <Head titles={["Limit", "#Needed", "#There", "Note", "Nearest"]} />
              <tbody>
                {limits.map((limit) => (
                  <tr key={limit.name} class={limit.short ? "invalid" : ""}>
                    <th scope="row">{limit.name}</th>
                    <td class="number valid">{plain(limit.need)}</td>
                    <td class="number">{plain(limit.have)}</td>
                    <td class="prose">{limit.note}</td>
                    <td>{limit.cell}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </>
      )}
    </section>
  );
}
