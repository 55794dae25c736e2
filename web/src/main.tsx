// The report of a run. The page is one file: this program, its style and the
// run's figures lie in it, and nothing is asked of any server.

import { render, type ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { goToSection } from "./address";
import { ofEnds, readRun, type Cell, type Run } from "./data";
import { looksOf, type Look } from "./look";
import { cellMetrics } from "./metrics";
import { Allocations } from "./sections/allocations";
import { Against, hasAgainst } from "./sections/against";
import { Claims } from "./sections/claims";
import { Cells } from "./sections/cells";
import { Bursts, bursts, Courses, scheduled, Steady, steady } from "./sections/loads";
import { Choices, hasChoices } from "./sections/choices";
import { Connections, hasConnections } from "./sections/connections";
import { Bytes, Ends, hasBytes, hasEnds } from "./sections/costs";
import { Crossovers, effectsOf, Limits, WarmUps } from "./sections/effects";
import { Differences } from "./sections/differences";
import { at, hasCurve, Percentiles } from "./sections/percentiles";
import { Levers } from "./sections/levers";
import { Machines } from "./sections/machines";
import { Profiles } from "./sections/profiles";
import { Reproduce } from "./sections/reproduce";
import { Scalings } from "./sections/scaling";
import { searched, Searches } from "./sections/search";
import { Failures, Setup } from "./sections/setup";
import { hasTail, Tail } from "./sections/tail";
import { Verdict } from "./sections/verdict";
import { mapped, Winners } from "./sections/winners";
import { serviceSections, usePage } from "./service/page";
import { Why, type StacksAsked } from "./sections/why";

function App({ run }: { run: Run }) {
  const looks = useMemo(() => looksOf(run.cells, run.stacks), []);
  const [picked, setPicked] = useState(() => usualPick(run.cells));
  const [stacks, setStacks] = useState<StacksAsked | null>(null);
  const pick = (key: string) => {
    const next = new Set(picked);
    if (!next.delete(key)) next.add(key);
    setPicked(next);
  };
  const service = usePage({ run, looks });
  const failed = run.cells.some((cell) => cell.survival.failures.length > 0);
  const all: [id: string, title: string, shown: boolean][] = [
    ...serviceSections(run),
    ["levers", "Levers", run.levers.length > 0],
    ["claims", "Claims", run.claims.length > 0],
    ["scaling", "In flight", run.scalings.length > 0],
    ["search", "Search", searched(run).length > 0],
    ["bursts", "Bursts", bursts(run).length > 0],
    ["course", "Over time", !service && scheduled(run).length > 0],
    ["connections", "Connections", !service && hasConnections(run)],
    ["choices", "Choices", hasChoices(run)],
    ["winners", "Winners", mapped(run).length > 0],
    ["cells", service ? "All figures" : "Cells", true],
    ["failures", "Failures", !service && failed],
    ["size", "Size", hasAgainst(run.cells, "request_bytes")],
    ["concurrency", "Concurrency", hasAgainst(run.cells, "clients")],
    ["percentiles", "Percentiles", !service && run.cells.some(hasCurve)],
    ["steady", "Over the window", !service && steady(run).length > 0],
    ["tail", "Tail", hasTail(run)],
    ["ends", "Both ends", !service && hasEnds(run)],
    ["bytes", "On the wire", hasBytes(run)],
    ["why", "Why", run.insights.length > 0],
    ["profiles", "Call stacks", ofEnds(run.profiles).length > 0],
    ["allocations", "Allocations", run.allocations.length > 0],
    ...effectsOf(run),
    ["machines", "Machines", run.fleet !== undefined],
    ["setup", "Set-up", run.settings.length + run.machine_limits.length > 0],
    ["reproduce", "Reproduce", true],
  ];
  const shown = new Set(all.filter(([, , has]) => has).map(([id]) => id));
  return (
    <>
      <Verdict run={run} />
      <nav aria-label="Sections">
        {all.filter(([, , has]) => has).map(([id, title]) => <a key={id} href={`#${id}`}>{title}</a>)}
      </nav>
      <main>
        {service?.first}
        {service?.latency}
        {service?.answers}
        {service && <Ends run={run} looks={looks} />}
        <Rest folded={service !== null} titles={all.slice(all.findIndex(([id]) => id === "checks")).filter(([, , has]) => has).map(([, title]) => title)}>
        {service?.checks}
        <Levers run={run} />
        <Claims run={run} />
        <Scalings run={run} looks={looks} />
        <Searches run={run} />
        <Bursts run={run} looks={looks} />
        {shown.has("course") && <Courses run={run} looks={looks} />}
        {shown.has("connections") && <Connections run={run} looks={looks} />}
        <Choices run={run} />
        <Winners run={run} looks={looks} />
        <Cells run={run} looks={looks} picked={picked} pick={service ? null : pick} />
        {shown.has("failures") && <Failures run={run} />}
        {shown.has("size") && (
          <section id="size">
            <h2>Against message size</h2>
            <Against across="request_bytes" cells={run.cells} looks={looks} further={cellMetrics} />
          </section>
        )}
        <Concurrency run={run} looks={looks} />
        {shown.has("percentiles") && <Percentiles cells={run.cells} looks={looks} picked={picked} setPicked={setPicked} closedTail={run.closed_tail} />}
        {shown.has("steady") && <Steady run={run} looks={looks} />}
        {shown.has("tail") && <Tail run={run} looks={looks} />}
        {!service && <Ends run={run} looks={looks} />}
        <Bytes run={run} looks={looks} />
        <Why run={run} showStacks={setStacks} />
        <Profiles run={run} asked={stacks} />
        <Allocations run={run} />
        <Differences run={run} looks={looks} />
        <Limits run={run} />
        <Crossovers run={run} />
        <WarmUps run={run} />
        <Machines run={run} />
        <Setup run={run} />
        <Reproduce run={run} />
        </Rest>
      </main>
    </>
  );
}

/** What few readers of one service's page look for is folded; a link to a section in it opens it. */
function Rest({ folded, titles, children }: { folded: boolean; titles: string[]; children: ComponentChildren }) {
  if (!folded) return <>{children}</>;
  return (
    <details class="rest" id="rest">
      <summary>More: {titles.join(", ").toLowerCase()}</summary>
      {children}
    </details>
  );
}

function Concurrency({ run, looks }: { run: Run; looks: Map<string, Look> }) {
  if (!hasAgainst(run.cells, "clients")) return null;
  return (
    <section id="concurrency">
      <h2>Against concurrency</h2>
      <Against across="clients" cells={run.cells} looks={looks} further={cellMetrics} />
    </section>
  );
}

/** All stacks where most is to be seen: the busiest point that most of them reached. */
function usualPick(cells: Cell[]): Set<string> {
  let best: Cell[] = [];
  for (const cell of cells) {
    const there = at(cells, cell.part, cell.request_bytes, cell.clients);
    if (there.length > best.length || (there.length === best.length && there[0] && cell.clients > best[0]!.clients)) best = there;
  }
  return new Set(best.map((cell) => cell.key));
}

// The charts read the colours of the style sheet when they draw, so the print
// colours must be in force before they draw for the printer: this listener is
// the first.
addEventListener("beforeprint", () => document.documentElement.classList.add("printing"));
addEventListener("afterprint", () => document.documentElement.classList.remove("printing"));

const root = document.getElementById("app")!;
root.textContent = "";
render(<App run={readRun()} />, root);
goToSection();
