// Where the difference between two cells lies, or where the time of one goes.

import type { Breakdown, EndReadings, Insight } from "../data";
import { Scroll } from "../export";
import { micros, withInterval } from "../format";
import { share } from "../flame/words";
import { changesOf, difference, explainCPU, explainStages, mayBeChance, merged, type Change, type Explained } from "./change";
import { count, microsOf, more } from "./numbers";

const ends = ["client", "server"] as const;
const endNames = { client: "Client", server: "Server" };

interface Both {
  of: Insight;
  against: Insight | null;
}

export function PairTables({ of, against }: Both) {
  const stages = explainStages(of, against);
  const cpu = ends.map((end) => explainCPU(of[end].cpu, against?.[end].cpu, against === null));
  return (
    <>
      {stages && (
        <div class="tables">
          <PartsTable id="stages" title="Stages of a call" parts="Stage" explained={stages} of={of} against={against} rest="Rest: the cost of tracing, and noise"
            note={`The total is a call of the same processes without tracing. ${measured(of, against)}`} />
        </div>
      )}
      {!stages && of.life && against?.life && <p class="note">The calls of the two have different stages, which cannot be compared.</p>}
      <div class="tables">
        {ends.map((end, i) => cpu[i] && (
          <PartsTable key={end} id={`cpu-${end}`} title={`${endNames[end]}: CPU time of a call`} parts="Category" explained={cpu[i]} of={of} against={against} rest="Rest: what no category explains"
            note={sampled(of, against, end)} />
        ))}
      </div>
      <div class="tables">{ends.map((end) => <SyscallTable key={end} end={end} of={of} against={against} />)}</div>
      <div class="tables">{ends.map((end) => <CounterTable key={end} end={end} of={of} against={against} />)}</div>
    </>
  );
}

/** The means of the trials that were measured, which are others than those that were looked into. */
function measured(of: Insight, against: Insight | null): string {
  const all = [against, of].filter((one) => one !== null);
  if (all.some(({ mean_us }) => mean_us === null)) return "";
  return `Measured in separate trials: ${all.map((one) => `${one.variant} ${withInterval(one.mean_us, one.intervals["mean_us"], micros)}`).join(", ")}.`;
}

/** What the times of an end come from. */
function sampled(of: Insight, against: Insight | null, end: "client" | "server"): string {
  const told = ({ samples, depth, decoding }: Breakdown) => [
    `${samples.toLocaleString("en")} samples`,
    ...(depth === null ? [] : [`${depth.toFixed(1)} functions above the kernel`]),
    ...(decoding ? [`messages decoded at depth ${decoding.depth.toFixed(1)}, ${share(decoding.share)}`] : []),
  ].join(", ");
  if (!against) return `${told(of[end].cpu!)}.`;
  return `${against.variant}: ${told(against[end].cpu!)}. ${of.variant}: ${told(of[end].cpu!)}.`;
}

interface PartsProps extends Both {
  id: string;
  title: string;
  note: string;
  parts: string; // what they are called
  explained: Explained;
  rest: string;
}

function PartsTable({ id, title, note, parts, explained, rest, of, against }: PartsProps) {
  const { whole } = explained;
  const show = microsOf(Math.max(whole.a, whole.b));
  const largest = Math.max(...[...explained.parts, ...(explained.rest ? [explained.rest] : [])].map((part) => Math.abs(difference(part))));
  const row = (change: Change, name: string, last = "") => (
    <tr key={name} class={last}>
      <th scope="row">{name}</th>
      <Figures change={change} show={show} pair={against !== null} />
      {last ? <td /> : <Size change={change} largest={largest} pair={against !== null} />}
    </tr>
  );
  return (
    <div class="explained" data-table={id}>
      <h4>{title}</h4>
      {note && <p class="note">{note}</p>}
      <Scroll name={title}>
        <table>
          <thead>
            <tr>
              <th scope="col">{parts}, µs per call</th>
              <Heads of={of} against={against} />
              <th scope="col"><span class="hidden">{against ? "Difference as a bar" : "As a bar"}</span></th>
            </tr>
          </thead>
          <tbody>
            {explained.parts.map((part) => row(part, part.name))}
            {explained.rest && row(explained.rest, rest)}
            {row(whole, `= ${whole.name}`, "whole")}
          </tbody>
        </table>
      </Scroll>
    </div>
  );
}

function Heads({ of, against }: Both) {
  if (!against) return <th scope="col" class="number">{of.variant}</th>;
  return (
    <>
      <th scope="col" class="number">A {against.variant}</th>
      <th scope="col" class="number">B {of.variant}</th>
      <th scope="col" class="number">Difference</th>
    </>
  );
}

function Figures({ change, show, pair }: { change: Change; show: (value: number) => string; pair: boolean }) {
  if (!pair) return <td class="number">{show(change.b)}</td>;
  return (
    <>
      <td class="number">{show(change.a)}</td>
      <td class="number">{show(change.b)}</td>
      <td class="number">{more(difference(change), show)}</td>
    </>
  );
}

/** How large a difference is among those of its table: to the right where B has more. */
function Size({ change, largest, pair }: { change: Change; largest: number; pair: boolean }) {
  if (pair && mayBeChance(change)) return <td class="chance">may be chance</td>;
  const part = largest > 0 ? difference(change) / largest : 0;
  const long = `${(pair ? 50 : 100) * Math.abs(part)}%`;
  return (
    <td class="size" aria-hidden="true">
      <i class={part < 0 ? "less" : "more"} style={{ width: long, left: pair ? (part < 0 ? `calc(50% - ${long})` : "50%") : 0 }} />
      {pair && <i class="middle" />}
    </td>
  );
}

const least = 0.005; // a call, that is shown

function SyscallTable({ end, of, against }: Both & { end: keyof typeof endNames }) {
  const times = new Map(merged(against?.[end].syscalls ?? [], of[end].syscalls, ({ name }) => name).map(([name, a, b]) => [name, { a: a?.us ?? null, b: b?.us ?? null }]));
  const has = (one: EndReadings) => one.syscalls.length > 0;
  if (!has(of[end]) || (against && !has(against[end]))) return null;
  const one = (us: number | null) => (us === null ? "–" : count(us));
  return (
    <CountTable id={`syscalls-${end}`} title={`${endNames[end]}: system calls`} counted="System call" of={of} against={against} changes={changesOf(of[end].syscalls, against?.[end].syscalls ?? [])}
      note="Number per call, and microseconds for each, waiting included."
      further={against ? ["µs each, A", "µs each, B"] : ["µs each"]}
      more={(name) => (against ? [one(times.get(name)!.a), one(times.get(name)!.b)] : [one(times.get(name)!.b)])} />
  );
}

function CounterTable({ end, of, against }: Both & { end: keyof typeof endNames }) {
  if (of[end].counters.length === 0 || against?.[end].counters.length === 0) return null;
  return <CountTable id={`counters-${end}`} title={`${endNames[end]}: counted`} counted="A call" of={of} against={against} changes={changesOf(of[end].counters, against?.[end].counters ?? [])} />;
}

interface CountProps extends Both {
  id: string;
  title: string;
  note?: string;
  counted: string;
  changes: Change[];
  further?: string[];
  more?: (name: string) => string[];
}

function CountTable({ id, title, note, counted, changes, of, against, further = [], more: beside = () => [] }: CountProps) {
  const shown = changes.filter(({ a, b }) => a >= least || b >= least);
  const rare = changes.length - shown.length;
  return (
    <div class="explained" data-table={id}>
      <h4>{title}</h4>
      <p class="note">{note}{rare > 0 && ` ${rare} with less than ${least} per call are left out.`}</p>
      <Scroll name={title}>
        <table>
          <thead>
            <tr>
              <th scope="col">{counted}</th>
              <Heads of={of} against={against} />
              {further.map((head) => <th scope="col" class="number" key={head}>{head}</th>)}
            </tr>
          </thead>
          <tbody>
            {shown.map((change) => (
              <tr key={change.name}>
                <th scope="row">{change.name}</th>
                <Figures change={change} show={count} pair={against !== null} />
                {beside(change.name).map((text, i) => <td class="number" key={i}>{text}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </div>
  );
}
