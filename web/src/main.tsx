// The report of a run. The page is one file: this program, its style and the
// run's figures lie in it, and nothing is asked of any server.

import { render, type ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { goToSection } from "./address";
import { Section, useLocal } from "./controls";
import { ofEnds, readRun, type Cell, type Run } from "./data";
import { useFilter } from "./filter";
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
import { Crossovers, Limits, WarmUps } from "./sections/effects";
import { Differences } from "./sections/differences";
import { Glossary } from "./sections/glossary";
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
import { isService, serviceSections } from "./service/page";
import { Why, type StacksAsked } from "./sections/why";

/** A section, if it has something to say. */
export type SectionOf = [id: string, title: string, shown: boolean, content: () => ComponentChildren];

const openAtFirst = 6; // sections, as far as they end above the height; the rest is folded, so that the page can be looked over
const openHeight = 4200; // pixels
const mostHeight = 4800; // pixels of the page, above which the details of the first section are folded too

function App({ run }: { run: Run }) {
  const looks = useMemo(() => looksOf(run.cells, run.stacks), []);
  const { shown, bar } = useFilter({ run, looks });
  const [stacks, setStacks] = useState<StacksAsked | null>(null);
  const [ticks, setTicks] = useState(new Map<string, boolean>()); // the reader's own
  const picked = useMemo(() => {
    const usual = usualPick(shown.cells);
    return new Set(shown.cells.map(({ key }) => key).filter((key) => ticks.get(key) ?? usual.has(key)));
  }, [shown, ticks]);
  const pick = (cell: string) => setTicks(new Map(ticks).set(cell, !picked.has(cell)));
  const sections = sectionsOf({ run: shown, looks, picked, pick, stacks, setStacks }).filter(([, , has]) => has);
  useLayoutEffect(() => {
    const folds = [...document.querySelectorAll<HTMLDetailsElement>(".fold[open]")];
    for (const fold of folds.slice(1)) fold.open = fold.getBoundingClientRect().bottom + scrollY <= openHeight;
    for (const details of document.querySelectorAll<HTMLDetailsElement>(".depth")) if (document.documentElement.scrollHeight > mostHeight) details.open = false;
  }, []);
  return (
    <>
      <Verdict run={run} />
      <nav aria-label="Sections" id="contents">
        {sections.map(([id, title]) => <a key={id} href={`#${id}`}>{title}</a>)}
      </nav>
      {bar}
      <main>
        {sections.map(([id, title, , content], place) => <Fold key={id} id={id} title={title} usual={place < openAtFirst}>{content()}</Fold>)}
      </main>
    </>
  );
}

/** A section that can be folded; a link to it opens it. */
function Fold({ id, title, usual, children }: { id: string; title: string; usual: boolean; children: ComponentChildren }) {
  const [open, setOpen] = useLocal(`${id} is open`, usual);
  return (
    <details class="fold" open={open} onToggle={(event) => { if (event.target === event.currentTarget) setOpen(event.currentTarget.open); }}>
      <summary><span>{title}</span></summary>
      <Section.Provider value={id}>{children}</Section.Provider>
    </details>
  );
}

interface Shown {
  run: Run;
  looks: Map<string, Look>;
  picked: Set<string>;
  pick: (key: string) => void;
  stacks: StacksAsked | null;
  setStacks: (asked: StacksAsked) => void;
}

function sectionsOf({ run, looks, picked, pick, stacks, setStacks }: Shown): SectionOf[] {
  const service = isService(run);
  const failed = run.cells.some((cell) => cell.survival.failures.length > 0);
  const ends: SectionOf = ["ends", "Both ends", hasEnds(run), () => <Ends run={run} looks={looks} />];
  return [
    ...serviceSections({ run, looks }).flatMap((one): SectionOf[] => (one[0] === "checks" ? [ends, one] : [one])),
    ["why", "Why", run.insights.length > 0, () => <Why run={run} showStacks={setStacks} />],
    ["levers", "Levers", run.levers.length > 0, () => <Levers run={run} />],
    ["claims", "Claims", run.claims.length > 0, () => <Claims run={run} />],
    ["scaling", "In flight", run.scalings.length > 0, () => <Scalings run={run} looks={looks} />],
    ["search", "Search", searched(run).length > 0, () => <Searches run={run} />],
    ["bursts", "Bursts", bursts(run).length > 0, () => <Bursts run={run} looks={looks} />],
    ["course", "Over time", !service && scheduled(run).length > 0, () => <Courses run={run} looks={looks} />],
    ["connections", "Connections", !service && hasConnections(run), () => <Connections run={run} looks={looks} />],
    ["choices", "Choices", hasChoices(run), () => <Choices run={run} />],
    ["winners", "Winners", mapped(run).length > 0, () => <Winners run={run} looks={looks} />],
    ["cells", service ? "All figures" : "Cells", true, () => <Cells run={run} looks={looks} picked={picked} pick={service ? null : pick} />],
    ["failures", "Failures", !service && failed, () => <Failures run={run} />],
    ["size", "Size", hasAgainst(run.cells, "request_bytes"), () => (
      <section id="size">
        <h2>Against message size</h2>
        <Against across="request_bytes" cells={run.cells} looks={looks} further={cellMetrics} />
      </section>
    )],
    ["concurrency", "Concurrency", hasAgainst(run.cells, "clients"), () => (
      <section id="concurrency">
        <h2>Against concurrency</h2>
        <Against across="clients" cells={run.cells} looks={looks} further={cellMetrics} />
      </section>
    )],
    ["comparisons", "Differences", run.comparisons.length > 0, () => <Differences run={run} looks={looks} />],
    ["percentiles", "Percentiles", !service && run.cells.some(hasCurve), () => <Percentiles cells={run.cells} looks={looks} picked={picked} closedTail={run.closed_tail} />],
    ["steady", "Over the window", !service && steady(run).length > 0, () => <Steady run={run} looks={looks} />],
    ["tail", "Tail", hasTail(run), () => <Tail run={run} looks={looks} />],
    ...(service ? [] : [ends]),
    ["bytes", "On the wire", hasBytes(run), () => <Bytes run={run} looks={looks} />],
    ["profiles", "Call stacks", ofEnds(run.profiles).length > 0, () => <Profiles run={run} asked={stacks} />],
    ["allocations", "Allocations", run.allocations.length > 0, () => <Allocations run={run} />],
    ["limits", "Limit", run.limits.length > 0, () => <Limits run={run} />],
    ["crossovers", "Crossovers", run.crossovers.length > 0, () => <Crossovers run={run} />],
    ["warm-up", "Warm-up", run.warm_ups.length > 0, () => <WarmUps run={run} />],
    ["machines", "Machines", run.fleet !== undefined, () => <Machines run={run} />],
    ["setup", "Set-up", run.settings.length + run.machine_limits.length > 0, () => <Setup run={run} />],
    ["reproduce", "Reproduce", true, () => <Reproduce run={run} />],
    ["glossary", "Glossary", true, () => <Glossary />],
  ];
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

// Flame graphs read the colours of the style sheet when they draw, so the print
// colours must be in force before they draw for the printer: this listener is
// the first.
addEventListener("beforeprint", () => document.documentElement.classList.add("printing"));
addEventListener("afterprint", () => document.documentElement.classList.remove("printing"));

const root = document.getElementById("app")!;
root.textContent = "";
render(<App run={readRun()} />, root);
goToSection();
