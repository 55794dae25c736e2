// Which stack has the shortest tail, and where more clients stop paying.

import { Table } from "../export";
import type { Rule } from "../chart";
import { type Knee, type Run, variantTitle } from "../data";
import { plain, sizes, withInterval } from "../format";
import type { Look } from "../look";
import { tail } from "../metrics";
import { Against, hasAgainst, type Point } from "./against";

/** Whether there is a tail to be seen against the clients, or a knee. */
export function hasTail(run: Run): boolean {
  return run.knees.some(({ found }) => found) || hasAgainst(run.cells, "clients", [tail]);
}

export function Tail({ run, looks }: { run: Run; looks: Map<string, Look> }) {
  const rules = ({ part, fixed }: Point): Rule[] =>
    run.knees.filter((knee) => knee.found && knee.by === "tail" && knee.part === part && knee.request_bytes === fixed && looks.has(knee.variant)).map((knee) => ({
      at: knee.clients!,
      low: knee.intervals["clients"]?.low,
      high: knee.intervals["clients"]?.high,
      look: looks.get(knee.variant)!,
      text: `knee of ${knee.variant}`,
    }));
  return (
    <section id="tail">
      <h2>Tail and knee</h2>
      <p class="note">P99 divided by P50: how much slower the slowest request of a hundred is than the usual one. A dashed line marks the knee, from which more clients add more latency than throughput, with its interval.</p>
      <Against across="clients" cells={run.cells} looks={looks} further={[tail]} onlyFurther rules={rules} />
      {run.knees.length > 0 && <Knees knees={run.knees} />}
    </section>
  );
}

function Knees({ knees }: { knees: Knee[] }) {
  return (
    <details>
      <summary>All knees, and why some curves have none</summary>
      <Table name="Knees" titles={[variantTitle, "Part", "Connection", "#Size", "Of", "~Clients at the knee"]} rows={knees.map((knee) => ({
        key: `${knee.part} ${knee.variant} ${knee.connection} ${knee.request_bytes} ${knee.response_bytes} ${knee.by}`, cells: [
          knee.variant, knee.part, knee.connection, sizes(knee.request_bytes, knee.response_bytes), knee.by,
          knee.found ? withInterval(knee.clients, knee.intervals["clients"], plain) : <span class="faint">{knee.reason}</span>,
        ],
      }))} />
    </details>
  );
}
