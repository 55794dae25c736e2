// Why a call takes as long as it does: its stages, and where two cells differ.

import { Choice, useLocal } from "../controls";
import { cellOf, distinct, ofEnds, type Insight, type PackedProfile, type Run } from "../data";
import { sizes } from "../format";
import { LifeChart } from "../why/life";
import { PairTables } from "../why/pair";
import { Passes } from "../why/passes";
import { TailChart } from "../why/tail";
import { counted } from "../words";

/** The cells whose call stacks are to be shown: A, and B where two are compared. */
export interface StacksAsked {
  a: string;
  b: string | null;
}

interface Props {
  run: Run;
  showStacks: (of: StacksAsked) => void;
}

interface Wanted {
  workload?: string;
  a?: string | null; // a variant; null for none
  b?: string;
}

export function Why({ run, showStacks }: Props) {
  const [wanted, setWanted] = useLocal<Wanted>("pair", {});
  const { insights, pairs } = run;
  if (insights.length === 0) return null;
  const sizeOf = (of: Insight) => sizes(of.request_bytes, of.response_bytes);
  const oneOf = <T,>(options: T[], choice: T | undefined) => (choice !== undefined && options.includes(choice) ? choice : options[0]!);

  const parts = distinct(insights.map(({ part }) => part));
  const part = parts[0]!;
  const inPart = insights.filter((of) => of.part === part);
  const workloads = distinct(inPart.map(({ workload }) => workload));
  const workload = oneOf(workloads, wanted.workload);
  const ofWorkload = inPart.filter((of) => of.workload === workload);
  const allSizes = distinct(ofWorkload.map(sizeOf));
  const size = allSizes[0]!;
  const there = ofWorkload.filter((of) => sizeOf(of) === size);
  const counts = distinct(there.map(({ clients }) => clients));
  const clients = counts[0]!;

  // The first pair of a point is the usual one.
  const at = pairs.filter(({ of }) => there.includes(insights[of]!) && insights[of]!.clients === clients);
  const variantOf = (place: number | null) => (place === null ? null : insights[place]!.variant);
  const choicesOfB = distinct(insights.filter((_, place) => at.some(({ of }) => of === place)).map(({ variant }) => variant));
  const b = wanted.b !== undefined && choicesOfB.includes(wanted.b) ? wanted.b : variantOf(at[0]!.of)!;
  const withB = at.filter(({ of }) => variantOf(of) === b);
  const wantedA = wanted.a === undefined ? variantOf(at[0]!.against) : wanted.a;
  const pair = withB.find(({ against }) => variantOf(against) === wantedA) ?? withB.find(({ against }) => against === null) ?? withB[0]!;
  const a = variantOf(pair.against);
  const inOrder = insights.map(({ variant }) => variant);
  const choicesOfA = ["", ...distinct(inOrder.filter((variant) => withB.some(({ against }) => variantOf(against) === variant)))];

  const of = insights[pair.of]!;
  const against = pair.against === null ? null : insights[pair.against]!;
  const where = [...(parts.length > 1 ? [part] : []), ...(workloads.length > 1 ? [workload] : []), `${size} messages`].join(", ");
  return (
    <section id="why">
      <h2>Why a call takes as long as it does</h2>
      <p class="note">Probes watched both processes and the kernel in separate trials. The speeds of those trials appear nowhere else in this report.</p>
      <div class="choices">
        <Choice label="Workload" options={workloads} chosen={workload} choose={(next) => setWanted({ ...wanted, workload: next })} />
      </div>
      <LifeChart insights={there.filter((one) => one.clients === clients)} where={`${where} with ${counted(clients, "client")}`} />
      <h3>{against ? "Where a difference lies" : "Where the time goes"}</h3>
      <div class="choices pair-choices">
        <Choice label="A" options={choicesOfA} chosen={a ?? ""} show={(variant) => variant || "none: B alone"} choose={(next) => setWanted({ ...wanted, a: next || null })} />
        <Choice label="B" options={choicesOfB} chosen={b} choose={(next) => setWanted({ ...wanted, b: next, a: next === a ? b : wanted.a })} />
      </div>
      <ul class="advice">{pair.words.map((text) => <li key={text}>{text}</li>)}</ul>
      <StackLinks profiles={ofEnds(run.profiles)} of={of} against={against} showStacks={showStacks} />
      {insights.some(({ tail }) => tail) && (
        <details class="depth" open>
          <summary>Why slow calls are slow</summary>
          <TailChart insights={against ? [of, against] : [of]} profiles={run.profiles} />
        </details>
      )}
      <details>
        <summary>All figures: stages, CPU time, system calls, counters</summary>
        <p class="note">{against ? `B ${of.variant} against A ${against.variant}` : of.variant}, {where} with {counted(clients, "client")}. {against && "The largest difference comes first. "}
          {against && "“May be chance”: less than three standard errors of the calls or samples. Two runs may differ by more."}</p>
        {!of.life && <p class="note">The stages of calls with {counted(clients, "client")} were not traced.</p>}
        <PairTables of={of} against={against} />
      </details>
      <details>
        <summary>How the probes measured</summary>
        <Passes insights={there} />
      </details>
    </section>
  );
}

interface LinkProps {
  profiles: PackedProfile[];
  of: Insight;
  against: Insight | null;
  showStacks: (of: StacksAsked) => void;
}

/** Links to the flame graphs of the cells that have some. */
function StackLinks({ profiles, of, against, showStacks }: LinkProps) {
  const has = (insight: Insight) => profiles.some((profile) => cellOf(profile) === cellOf(insight));
  const link = (text: string, asked: StacksAsked) => <a key={text} href="#profiles" onClick={() => showStacks(asked)}>{text}</a>;
  const links = [against, of].flatMap((one) => (one && has(one) ? [link(one.variant, { a: cellOf(one), b: null })] : []));
  if (links.length === 0) return null;
  return (
    <p class="stack-links">
      Call stacks: {links.length === 2 && link(`${of.variant} against ${against!.variant}`, { a: cellOf(against!), b: cellOf(of) })} {links}
    </p>
  );
}
