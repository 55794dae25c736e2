// What went wrong, and what was set otherwise than a library or the machine
// has it.

import { Table } from "../export";
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
      <Table name="Failures" tall titles={["Class", "Code", "#Requests", "#Of", variantTitle, "Connection", "#Clients", "#Size", "~First"]} rows={rows.map(({ cell, failure }) => ({
        key: `${cell.key} ${failure.class} ${failure.code}`, cells: [
            failure.class || "–", failure.code, plain(failure.count), plain(cell.survival.requests), cell.variant, cell.connection, plain(cell.clients),
            sizes(cell.request_bytes, cell.response_bytes), <q>{failure.example}</q>,
        ],
      }))} />
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
          <p class="note">Limits of the machine. For each, the trial that came closest to it.</p>
          <Table name="Limits of the machine" titles={["Limit", "#Needed", "#There", "~Note", "Nearest"]} rows={limits.map((limit) => ({
            key: limit.name, className: limit.short ? "invalid" : "", cells: [
                limit.name, <span class="valid">{plain(limit.need)}</span>, plain(limit.have), limit.note, limit.cell,
            ],
          }))} />
        </>
      )}
    </section>
  );
}
