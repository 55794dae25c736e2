// How a service of the user's own stands: the course of its answers first, then
// how they are spread, what was answered, and whether to believe it.

import { useMemo } from "preact/hooks";
import type { Run } from "../data";
import type { Look } from "../look";
import { usePoint } from "../points";
import { hasEnds } from "../sections/costs";
import { Answers, Opened } from "./answers";
import { Checks } from "./checks";
import { Latency } from "./latency";
import { hasSteps, Steps } from "./steps";
import { OverTime } from "./time";

interface Props {
  run: Run;
  looks: Map<string, Look>;
}

/** Whether a run loaded a service of the user's own. */
export const isService = (run: Run) => run.cells.length > 0 && run.cells.every((cell) => cell.said !== "");

/** The sections before those of every run, for the page's index. */
export function serviceSections(run: Run): [id: string, title: string, shown: boolean][] {
  const has = isService(run);
  return [
    ["time", "Over time", has],
    ["steps", "Clients", has && hasSteps(run)],
    ["latency", "Latency", has && run.cells.some((cell) => cell.spread.length > 0)],
    ["answers", "Answers", has],
    ["opened", "Connections", has],
    ["ends", "Both ends", has && hasEnds(run)],
    ["checks", "Checks", has],
  ];
}

export function usePage({ run, looks }: Props) {
  const cells = useMemo(() => (isService(run) ? run.cells : []), []);
  const point = usePoint(cells);
  if (cells.length === 0) return null;
  return {
    first: <><OverTime point={point} looks={looks} /><Steps run={run} looks={looks} /></>,
    latency: <Latency point={point} looks={looks} closedTail={run.closed_tail} />,
    answers: <><Answers point={point} /><Opened point={point} /></>,
    checks: <Checks point={point} warnings={run.warnings} />,
  };
}
