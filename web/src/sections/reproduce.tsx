// What it takes to measure this again.

import { useState } from "preact/hooks";
import { Head, Scroll, copy } from "../export";
import type { Cell, Run } from "../data";
import { plain } from "../format";
import { modeBeside } from "../words";

export function Reproduce({ run }: { run: Run }) {
  const [copied, setCopied] = useState("");
  return (
    <section id="reproduce">
      <h2>Reproduce</h2>
      <pre class="command" tabIndex={0}>{run.command}</pre>
      <p class="more"><button type="button" class="plain" onClick={async () => setCopied((await copy(recipeOf(run))) ? "copied" : "the browser does not allow copying")}>Copy with version and environment</button> <small role="status">{copied}</small></p>
      <dl class="host">
        {run.tool && <><dt>wirelab</dt><dd>{run.tool}</dd></>}
        {run.seed && <><dt>Seed</dt><dd>{run.seed}</dd></>}
        {run.started && <><dt>Started</dt><dd>{run.started}</dd></>}
        {run.directory && <><dt>Directory</dt><dd>{run.directory}</dd></>}
        <dt>Machine</dt>
        <dd>{run.machine}</dd>
      </dl>
      <Agreed run={run} />
      {run.host && (
        <details>
          <summary>All facts about the machine</summary>
          <dl class="host">
            {flat(run.host).map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}
          </dl>
        </details>
      )}
      {run.seed && <p class="note">The figures are in <code>cells.csv</code> beside this page; <code>wirelab export</code> writes them for other tools.</p>}
    </section>
  );
}

/** What another person needs to measure this again, as comments and commands of a shell. */
function recipeOf(run: Run): string {
  const facts = [run.tool && `wirelab ${run.tool}`, run.machine, run.started && `measured ${run.started}`, run.seed && `seed ${run.seed}`];
  return facts.filter(Boolean).map((fact) => `# ${fact}\n`).join("") + run.command + "\n";
}

/** What each variant's connections agreed on with their server. */
function Agreed({ run }: { run: Run }) {
  const cells = [...Map.groupBy(run.cells, (cell) => `${cell.variant} ${cell.connection}`).values()];
  return (
    <>
      <h3>Negotiated</h3>
      <p class="note">What clients and servers negotiated, read from the connections of all trials of a variant.</p>
      <Scroll name="Negotiated">
        <table class="negotiated">
          <Head titles={["Variant", "Protocol", "Congestion control", "ALPN", "TLS", "Cipher suite", "Key exchange", "#Full", "#Resumed"]} />
          <tbody>{cells.map((same) => <AgreedRows key={`${same[0]!.variant} ${same[0]!.connection}`} cells={same} />)}</tbody>
        </table>
      </Scroll>
    </>
  );
}

function AgreedRows({ cells }: { cells: Cell[] }) {
  const cell = cells[0]!;
  const all = cells.map(({ connections }) => connections.negotiated);
  const name = <th scope="row">{cell.variant} <small>{modeBeside(cell)}</small></th>;
  if (all.every(({ recorded }) => !recorded)) {
    return <tr>{name}<td colSpan={8} class="faint">not recorded: the run is older</td></tr>;
  }
  const protocol = [...new Set(all.map((one) => one.protocol).filter(Boolean))].join(", ") || "–";
  const congestion = controls(all);
  const kinds = [...Map.groupBy(all.flatMap(({ sessions }) => sessions), ({ version, cipher, group, alpn }) => `${version} ${cipher} ${group} ${alpn}`).values()];
  if (kinds.length === 0) {
    return <tr>{name}<td>{protocol}</td><td>{congestion}</td><td>–</td><td colSpan={5}>cleartext</td></tr>;
  }
  return (
    <>
      {kinds.map((kind) => {
        const session = kind[0]!;
        const sum = (count: (of: typeof session) => number) => plain(kind.reduce((total, of) => total + count(of), 0));
        return (
          <tr key={`${session.version} ${session.cipher} ${session.group} ${session.alpn}`}>
            {name}
            <td>{protocol}</td>
            <td>{congestion}</td>
            <td>{session.alpn || "–"}</td>
            <td>{session.version}</td>
            <td>{session.cipher}</td>
            <td>{session.group || "–"}</td>
            <td class="number">{sum(({ full }) => full)}</td>
            <td class="number">{sum(({ resumed }) => resumed)}</td>
          </tr>
        );
      })}
    </>
  );
}

/** The congestion control of both ends, or of each where they differ. */
function controls(all: Cell["connections"]["negotiated"][]) {
  const of = (words: (one: (typeof all)[number]) => string) => [...new Set(all.map(words).filter(Boolean))].join(", ") || "–";
  const client = of((one) => one.client_congestion);
  const server = of((one) => one.server_congestion);
  return client === server ? client : `${client} (client), ${server} (server)`;
}

/** The facts of a tree, each under its path. */
function flat(tree: unknown, path = ""): [string, string][] {
  if (Array.isArray(tree) && tree.every((value) => typeof value !== "object")) return [[path, tree.join(", ")]];
  if (tree && typeof tree === "object") {
    return Object.entries(tree).flatMap(([name, value]) => flat(value, path ? `${path} › ${name}` : name));
  }
  return [[path, String(tree)]];
}
