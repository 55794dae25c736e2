// How a service of the user's own stands: the course of its answers first, then
// how they are spread, what was answered, and whether to believe it.

import type { Run } from "../data";
import type { Look } from "../look";
import type { SectionOf } from "../main";
import { pointOf } from "../points";
import { Answers, Opened } from "./answers";
import { Checks } from "./checks";
import { Latency } from "./latency";
import { hasSteps, Steps } from "./steps";
import { OverTime } from "./time";

/** Whether a run loaded a service of the user's own. */
export const isService = (run: Run) => run.cells.length > 0 && run.cells.every((cell) => cell.said !== "");

/** The sections before those of every run. */
export function serviceSections({ run, looks }: { run: Run; looks: Map<string, Look> }): SectionOf[] {
  if (!isService(run)) return [];
  const point = pointOf(run.cells);
  return [
    ["time", "Over time", true, () => <OverTime point={point} looks={looks} />],
    ["steps", "Clients", hasSteps(run), () => <Steps run={run} looks={looks} />],
    ["latency", "Latency", run.cells.some((cell) => cell.spread.length > 0), () => <Latency point={point} looks={looks} closedTail={run.closed_tail} />],
    ["answers", "Answers", true, () => <Answers point={point} />],
    ["opened", "Connections", true, () => <Opened point={point} />],
    ["checks", "Checks", true, () => <Checks point={point} warnings={run.warnings} />],
  ];
}
