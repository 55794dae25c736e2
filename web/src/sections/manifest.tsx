// The fairness manifest: what every variant sets that is not its library's
// default, side by side, so that two variants can be seen to run on equal terms.

import { Table } from "../export";
import type { Run, Setting } from "../data";
import { distinct } from "../data";

/** One setting of one end, and what each variant has for it. */
interface Row {
  side: string;
  name: string;
  settings: Setting[];
}

export function Manifest({ run }: { run: Run }) {
  const variants = distinct(run.cells.map(({ variant }) => variant));
  const stackOf = new Map(run.cells.map(({ variant, stack }) => [variant, stack]));
  const rows = rowsOf(run.settings);
  const silent = variants.filter((variant) => !run.settings.some((setting) => setting.variants.includes(variant)));
  return (
    <>
      <h3>Fairness manifest</h3>
      <p class="note">
        Every setting that differs from its library's default, as reported by the running client and server: one column per variant, one row per setting of an end, with its reason. “·” is the library's default, where other variants of the stack set something else; an empty field means that the stack does not set it. “≠” marks a row in which variants differ.
        {silent.length > 0 && ` Not recorded: ${silent.join(", ")}.`}
      </p>
      <Table name="Fairness manifest" tall class="manifest" titles={["Setting", "Default", ...variants]} rows={rows.map((row) => {
        const values = variants.map((variant) => valueOf(row, variant, stackOf.get(variant)!));
        const differs = new Set(values.filter((value) => value !== "")).size > 1;
        return {
          key: `${row.side} ${row.name}`, className: differs ? "unlike" : "", cells: [
            <>
              {differs && <b class="mark" title="variants differ">≠</b>} <code>{row.name}</code>
              <small class="why">{row.side}: {distinct(row.settings.map(({ why }) => why)).join("; ")}</small>
            </>,
            distinct(row.settings.map((setting) => setting.default)).join(", "),
            ...values.map((value, i) => (silent.includes(variants[i]!) ? "?" : value)),
          ],
        };
      })} />
    </>
  );
}

/** A setting that both ends of one stack have, and one end of another, is two rows. */
function rowsOf(settings: Setting[]): Row[] {
  const rows = Map.groupBy(settings, ({ side, name }) => `${side} ${name}`).values();
  return [...rows].map((same) => ({ side: same[0]!.side, name: same[0]!.name, settings: same }));
}

/** What a variant sets, with commas where its cells differ; a dot for the default of a setting that its stack knows. */
function valueOf(row: Row, variant: string, stack: string): string {
  const known = row.settings.filter((setting) => setting.stack === stack);
  const values = distinct(known.filter(({ variants }) => variants.includes(variant)).map(({ value }) => value));
  return values.join(", ") || (known.length > 0 ? "·" : "");
}
