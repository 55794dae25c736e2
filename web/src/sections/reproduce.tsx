// What it takes to measure this again.

import type { Run } from "../data";

export function Reproduce({ run }: { run: Run }) {
  return (
    <section id="reproduce">
      <h2>Reproduce</h2>
      <pre class="command" tabIndex={0}>{run.command}</pre>
      <dl class="host">
        <dt>Seed</dt>
        <dd>{run.seed}</dd>
        <dt>Started</dt>
        <dd>{run.started}</dd>
        {run.directory && <><dt>Directory</dt><dd>{run.directory}</dd></>}
        <dt>Machine</dt>
        <dd>{run.machine}</dd>
      </dl>
      <details>
        <summary>All that is known of the machine</summary>
        <dl class="host">
          {flat(run.host).map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}
        </dl>
      </details>
      <p class="note">The figures are in <code>cells.csv</code> beside this page; <code>wirelab export</code> writes them for other tools.</p>
    </section>
  );
}

/** The facts of a tree, each under its path. */
function flat(tree: unknown, path = ""): [string, string][] {
  if (Array.isArray(tree) && tree.every((value) => typeof value !== "object")) return [[path, tree.join(", ")]];
  if (tree && typeof tree === "object") {
    return Object.entries(tree).flatMap(([name, value]) => flat(value, path ? `${path} › ${name}` : name));
  }
  return [[path, String(tree)]];
}
