// Where both ends of a cell spend their time, call stack by call stack.

import { useEffect, useId, useMemo, useState } from "preact/hooks";
import { Choice, useLocal } from "../controls";
import { cellOf, distinct, ofEnds, type PackedProfile, type Run } from "../data";
import { Steps } from "../flame/beside";
import { FlameGraph } from "../flame/graph";
import { packagesOf, type Groups } from "../flame/groups";
import { unpack } from "../flame/stacks";
import type { Subject } from "../flame/words";
import { sizes } from "../format";
import { counted } from "../words";
import type { StacksAsked } from "./why";

type Kind = Exclude<PackedProfile["kind"], "slow" | "median">; // those of one end

const kindNames: Record<Kind, string> = { cpu: "CPU time", offcpu: "Waiting", alloc: "Allocated bytes" };
const kindNotes: Record<Kind, string> = {
  cpu: "Time on a CPU.",
  offcpu: "Time in which threads waited off the CPU, and goroutines of the server waited.",
  alloc: "Bytes allocated on the heap.",
};
const ends = ["client", "server"] as const;
const starts = { outermost: "outermost callers", innermost: "innermost functions" } as const;

interface Props {
  run: Run;
  asked: StacksAsked | null; // by another section, the last time that it was
}

export function Profiles({ run: { profiles }, asked }: Props) {
  // The rest of the page is shown first: to merge 100,000 stacks takes a while.
  const [ready, setReady] = useState(false);
  useEffect(() => setReady(true), []);
  const list = useMemo(() => ofEnds(profiles), [profiles]);
  if (list.length === 0) return null;
  return (
    <section id="profiles">
      <h2>{titleOf(list)}</h2>
      {ready && <Graphs profiles={{ ...profiles, list }} asked={asked} />}
    </section>
  );
}

function Graphs({ profiles: { list, functions, categories }, asked }: { profiles: Run["profiles"]; asked: StacksAsked | null }) {
  const cells = useMemo(() => cellsOf(list), [list]);
  const subjects = useMemo(() => new Map<PackedProfile, Subject>(), [list]);
  const [wantedCell, setCell] = useLocal("cell", "");
  const [wantedKind, setKind] = useLocal("kind", list[0]!.kind as Kind);
  const [wantedOther, setOther] = useLocal<string | null>("other", null);
  const [from, setFrom] = useLocal<keyof typeof starts>("from", "outermost");
  const [by, setBy] = useLocal<Groups["by"]>("by", "category");
  const [query, setQuery] = useLocal("query", "");
  const [litName, setLit] = useLocal<string | null>("lit", null);

  useEffect(() => {
    if (!asked || !cells.some(({ key }) => key === asked.a)) return;
    setCell(asked.a);
    setOther(asked.b);
    setKind("cpu");
  }, [asked]);

  const cell = cells.find(({ key }) => key === wantedCell) ?? cells[0]!;
  const { part } = cell;
  const inPart = cells.filter((one) => one.part === part);
  const kinds = distinct(cell.profiles.map(({ kind }) => kind as Kind));
  const kind = kinds.includes(wantedKind) ? wantedKind : kinds[0]!;
  const profileOf = (of: CellProfiles | undefined, end: string) => of?.profiles.find((profile) => profile.end === end && profile.kind === kind);
  const others = cells.filter((other) => other !== cell && ends.some((end) => profileOf(other, end) && profileOf(cell, end)));
  const other = others.find(({ key }) => key === wantedOther);

  const subjectOf = (profile: PackedProfile | undefined): Subject | undefined => {
    if (!profile) return undefined;
    let subject = subjects.get(profile);
    if (!subject) {
      const of = cells.find((candidate) => candidate.profiles.includes(profile))!;
      subject = { cell: of.name, unit: profile.unit, samples: profile.samples, per_call: profile.per_call, stacks: unpack(profile) };
      subjects.set(profile, subject);
    }
    return subject;
  };
  const shown = ends.flatMap((end) => {
    const [mine, theirs] = [subjectOf(profileOf(cell, end)), subjectOf(profileOf(other, end))];
    const of = other ? theirs : mine;
    return of ? [{ end, of, against: other && mine }] : [];
  });
  const stacksShown = shown.map(({ of }) => of.stacks);
  const groups = useMemo<Groups>(() => (by === "category" ? { by, names: categories } : packagesOf(functions, stacksShown)), [by, ...ends.map((_, i) => stacksShown[i])]);
  const lit = litName !== null && groups.names.includes(litName) ? groups.names.indexOf(litName) : null;
  const matcher = useMemo(() => matcherOf(query), [query]);
  const found = useMemo(() => (matcher && "matches" in matcher ? Uint8Array.from(functions, ({ name }) => Number(matcher.matches(name))) : null), [matcher]);
  const search = useId();
  const compare = useId();

  return (
    <>
      <p class="note">{kindNotes[kind]} A frame is a function, as wide as its share; the frames beneath it are {from === "outermost" ? "what it called" : "its callers"}. Click one to zoom in and the row of all to zoom out; or use the arrow keys, Enter and Esc. {by === "category" && !other && "Grey frames have stacks of several categories, whose shares are in the strip at their foot."}</p>
      <div class="choices">
        <Choice label="Part" options={distinct(cells.map((one) => one.part))} chosen={part} choose={(name) => setCell(cells.find((one) => one.part === name)!.key)} />
        <Choice label={other ? "Cell A" : "Cell"} options={inPart.map(({ key }) => key)} chosen={cell.key} show={(key) => cells.find((one) => one.key === key)!.short} choose={setCell} />
        <Choice label="Profile" options={kinds} chosen={kind} show={(name) => kindNames[name]} choose={setKind} />
        {others.length > 0 && (
          <div class="choice">
            <label class="title" for={compare}>Compare with{other && " B"}</label>
            <select id={compare} value={other?.key ?? ""} onChange={(event) => setOther(event.currentTarget.value || null)}>
              <option value="">nothing</option>
              {others.map((one) => <option key={one.key} value={one.key}>{one.part === part ? one.short : one.name}</option>)}
            </select>
          </div>
        )}
        <Choice label="Top row" options={Object.keys(starts) as (keyof typeof starts)[]} chosen={from} show={(start) => starts[start]} choose={setFrom} />
        <Choice label={other ? "Groups" : "Colour"} options={["category", "package"] as Groups["by"][]} chosen={by} choose={setBy} />
        <div class="choice">
          <label class="title" for={search}>Search functions</label>
          <input id={search} type="search" placeholder="text or /regexp/" spellcheck={false} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
          {matcher && <small> {"trouble" in matcher ? matcher.trouble : counted(found!.reduce((sum, one) => sum + one, 0), "function")}</small>}
        </div>
      </div>
      {other && <p class="note">Widths are from B, {other.name}; colours show how much more or less time a call takes in B than in A, {cell.name}.</p>}
      {other && <Steps compared="B against A" />}
      <div class="both-ends">
        {shown.map(({ end, of, against }) => (
          <FlameGraph key={[end, kind, from, cell.key, other?.key].join()} title={`${end === "client" ? "Client" : "Server"}: ${kindNames[kind]}${against ? " of B against A" : ` of ${of.cell}`}`}
            of={of} against={against} functions={functions} groups={groups} from={from} found={found} lit={lit} light={(group) => setLit(group === null ? null : groups.names[group]!)} />
        ))}
      </div>
    </>
  );
}

interface CellProfiles {
  key: string;
  part: string;
  name: string;
  short: string; // what tells it from others of its part
  profiles: PackedProfile[];
}

function cellsOf(list: PackedProfile[]): CellProfiles[] {
  const facts = (of: PackedProfile) => [of.variant, of.workload, sizes(of.request_bytes, of.response_bytes), counted(of.clients, "client")];
  const cells = [...Map.groupBy(list, cellOf)];
  return cells.map(([key, profiles]) => {
    const first = profiles[0]!;
    const all = list.filter((of) => of.part === first.part).map(facts);
    const apart = facts(first).filter((fact, place) => place === 0 || all.some((others) => others[place] !== fact));
    return { key, part: first.part, name: `${first.part}, ${facts(first).join(", ")}`, short: apart.join(" · "), profiles };
  });
}

function titleOf(list: PackedProfile[]): string {
  const bytes = list.some(({ unit }) => unit === "B");
  return list.some(({ unit }) => unit === "ns") ? `Where the time ${bytes ? "and the memory go" : "goes"}` : "Where the memory goes";
}

type Matcher = { matches: (name: string) => boolean } | { trouble: string };

/** What is searched for: a text, or a regular expression between slashes. */
function matcherOf(query: string): Matcher | null {
  if (query === "") return null;
  const expression = /^\/(.+)\/$/.exec(query)?.[1];
  if (expression === undefined) {
    const text = query.toLowerCase();
    return { matches: (name) => name.toLowerCase().includes(text) };
  }
  try {
    const regexp = new RegExp(expression, "i");
    return { matches: (name) => regexp.test(name) };
  } catch (error) {
    return { trouble: (error as Error).message };
  }
}
