// The slow calls of the compared cells beside their median calls, stage by stage.

import { Drawing, Table } from "../export";
import { useMemo, useState } from "preact/hooks";
import { cellOf, type Insight, type PackedProfile, type Profiles, type Tail } from "../data";
import { Steps } from "../flame/beside";
import { FlameGraph } from "../flame/graph";
import type { Groups } from "../flame/groups";
import { unpack } from "../flame/stacks";
import type { Subject } from "../flame/words";
import { micros, plain } from "../format";
import { Lanes, Legend, Swatch, type Bar } from "./lanes";
import { microsOf, more } from "./numbers";

const leastShare = 0.05; // of the difference, of a stage that the list names
const percent = (share: number) => `${Math.round(100 * share)} %`.replace("-", "−");

export function TailChart({ insights, profiles }: { insights: Insight[]; profiles: Profiles }) {
  const known = insights.flatMap(({ variant, tail }) => (tail && !tail.refused ? [{ variant, tail }] : []));
  const flames = insights.flatMap((insight) => {
    const ofKind = (kind: PackedProfile["kind"]) => profiles.list.find((profile) => profile.kind === kind && cellOf(profile) === cellOf(insight));
    const [slow, median] = [ofKind("slow"), ofKind("median")];
    return insight.tail && !insight.tail.refused && slow && median ? [{ variant: insight.variant, tail: insight.tail, slow, median }] : [];
  });
  const refused = insights.flatMap(({ variant, tail }) => (tail?.refused ? [`${variant}: ${tail.refused}.`] : []));
  if (known.length === 0) return refused.length === 0 ? null : <p class="note">The slow calls are not explained. {refused.join(" ")}</p>;
  const bars = known.flatMap(({ variant, tail }) => barsOf(variant, tail));
  return (
    <>
      <Drawing class="tail" heading="h4" title="Slow calls beside median calls" note={`Median calls are those between P40 and P60 of the same trials. Labels are shares of the difference. ${refused.join(" ")}`}
        only="picture" figures={known.map((one) => <TailTable key={one.variant} {...one} />)}>
        <Legend bars={bars} />
        <Lanes bars={bars} />
        {known.map(({ variant, tail }) => (
          <div class="tail-shares" key={variant}>
            <p class="note">{variant}: where the {micros(tail.slow_us - tail.median_us)} between a slow call and a median call are spent</p>
            <ul class="legend">
              {tail.stages.filter(({ share_of_excess }) => share_of_excess >= leastShare).toSorted((a, b) => b.share_of_excess - a.share_of_excess).map((stage) => (
                <li key={stage.name}><Swatch kind={stage.kind} /> {stage.name} <b>{percent(stage.share_of_excess)}</b></li>
              ))}
            </ul>
          </div>
        ))}
      </Drawing>
      {flames.length > 0 && (
        <div class="tail-flames">
          <p class="note">The time of a slow call by what its goroutines did, waits included; orange grows against a median call. The row below “all” has the stages, and below them are Go’s call stacks. The time in which a goroutine runs counts for the stack of what it does next.</p>
          <Steps compared="a slow call against a median call" />
          <div class="both-ends">{flames.map((one) => <TailFlames key={cellOf(one.slow)} {...one} profiles={profiles} />)}</div>
        </div>
      )}
    </>
  );
}

const called = { of: "a slow call", against: "a median call" };

interface FlamesProps {
  variant: string;
  tail: Tail;
  slow: PackedProfile;
  median: PackedProfile;
  profiles: Profiles;
}

/** What the goroutines of a slow call did, against those of a median call. */
function TailFlames({ variant, tail, slow, median, profiles: { functions, categories } }: FlamesProps) {
  const [lit, setLit] = useState<number | null>(null);
  const subject = (of: PackedProfile, cell: string): Subject => ({ cell, unit: of.unit, samples: of.samples, per_call: of.per_call, stacks: unpack(of) });
  const [of, against] = useMemo(() => [subject(slow, "slow"), subject(median, "median")], [slow, median]);
  const groups = useMemo<Groups>(() => ({ by: "category", names: categories }), [categories]);
  return (
    <FlameGraph heading="h4" title={`${variant}: a slow call against a median call`} of={of!} against={against} called={called}
      note={`A slow call takes ${micros(tail.slow_us)}, a median call ${micros(tail.median_us)}: means of ${plain(tail.slow_calls)} and ${plain(tail.median_calls)} calls.`}
      functions={functions} groups={groups} from="outermost" found={null} lit={lit} light={setLit} />
  );
}

function barsOf(variant: string, tail: Tail): Bar[] {
  const share = (part: number) => (part >= leastShare ? ` ${percent(part)}` : "");
  return [
    { name: `${variant}: median`, total: tail.median_us, stages: tail.stages.map((of) => ({ of, value: of.median_us })) },
    { name: `${variant}: slowest ${percent(tail.slow_calls / tail.calls)}`, total: tail.slow_us, stages: tail.stages.map((of) => ({ of, value: of.slow_us, label: of.name.replace(/^\w+: /, "") + share(of.share_of_excess) })) },
  ];
}

function TailTable({ variant, tail }: { variant: string; tail: Tail }) {
  const show = microsOf(tail.slow_us);
  return (
    <div class="explained" data-table="tail">
      <p class="note">{variant}: {plain(tail.slow_calls)} slow and {plain(tail.median_calls)} median calls of {plain(tail.calls)}</p>
      <Table name={`${variant}: slow and median calls`} titles={["Stage, µs per call", "#Median calls", "#Slow calls", "#Difference", "#Share of it", "#Share of variance"]} rows={[
        ...tail.stages.map((stage) => ({
          key: stage.name, cells: [
            stage.name, show(stage.median_us), show(stage.slow_us), more(stage.excess_us, show),
            <>{percent(stage.share_of_excess)} <small>({percent(stage.interval.low)} to {percent(stage.interval.high)})</small></>, percent(stage.share_of_variance),
          ],
        })),
        { key: "whole", className: "whole", cells: ["= A call", show(tail.median_us), show(tail.slow_us), more(tail.slow_us - tail.median_us, show), "", ""] },
      ]} />
    </div>
  );
}
