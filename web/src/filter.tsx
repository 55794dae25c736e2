// One filter for the whole page: parts, stacks, sizes and clients. It stands in the page's address.

import { useMemo } from "preact/hooks";
import { useKept, useKeptChoice, useKeptSet } from "./address";
import { distinct, type Run, variantTitle } from "./data";
import { absent, plain, sizes } from "./format";
import type { Look } from "./look";
import { Swatch } from "./marks";
import type { Clock } from "./metrics";
import { clockNames } from "./words";

/** What has a place in the matrix, as far as it has one. */
interface Placed {
  part?: string;
  request_bytes?: number;
  response_bytes?: number;
  clients?: number | null;
  variant?: string; // and other names of variants
  a?: string;
  b?: string;
  with?: string;
  base?: string;
  changed?: string;
}

const sizeOf = ({ request_bytes, response_bytes }: Placed) => sizes(request_bytes!, response_bytes ?? request_bytes!);

/** The part of the run that the filter lets through, and the bar of the filter. */
export function useFilter({ run, looks }: { run: Run; looks: Map<string, Look> }): { shown: Run; bar: preact.ComponentChildren } {
  const placed = [...run.cells, ...run.insights];
  const parts = distinct(placed.map((of) => of.part));
  const [part, choosePart] = useOne("part", parts);
  const all = distinct(placed.map(sizeOf)).filter((size) => size !== absent);
  const [size, chooseSize] = useOne("size", all);
  const counts = distinct(placed.map((of) => of.clients)).map(String);
  const [clients, chooseClients] = useOne("clients", counts);
  const variants = distinct(run.cells.map((cell) => cell.variant));
  const [left, leave] = useKeptSet("no-stack", variants);
  const [clock, chooseClock] = useKeptChoice<Clock>("time", ["response_us", "service_us"]);

  const keeps = (of: Placed) =>
    (!part || of.part === undefined || of.part === part) &&
    (!size || of.request_bytes === undefined || sizeOf(of) === size) &&
    (!clients || of.clients == null || String(of.clients) === clients) &&
    ![of.variant, of.a, of.b, of.with, of.base, of.changed].some((name) => name !== undefined && left.has(name));
  const active = Boolean(part || size || clients || left.size > 0);
  const several = [parts, all, counts, variants].some((options) => options.length > 1);
  const toggle = (variant: string) => {
    const next = new Set(left);
    if (!next.delete(variant)) next.add(variant);
    leave(next);
  };
  const bar = (
    <form class="filters" id="filter" aria-label="Filter of the whole page">
      {variants.length > 1 && (
        <details>
          <summary>{variantTitle}s: {left.size === 0 ? `all ${variants.length}` : `${variants.length - left.size} of ${variants.length}`}</summary>
          <div class="menu">
            {variants.map((variant) => <label key={variant}><input type="checkbox" checked={!left.has(variant)} onChange={() => toggle(variant)} /> <Swatch look={looks.get(variant)!} /> {variant}</label>)}
          </div>
        </details>
      )}
      <Select label="Part" options={parts} chosen={part} choose={choosePart} />
      <Select label="Size" options={all} chosen={size} choose={chooseSize} />
      <Select label="Clients" options={counts} chosen={clients} show={(count) => plain(Number(count))} choose={chooseClients} />
      {run.cells.some((cell) => cell.response_apart) && (
        <label>Time <select value={clock} onChange={(event) => chooseClock(event.currentTarget.value as Clock)}>{Object.entries(clockNames).map(([id, name]) => <option key={id} value={id}>{name}</option>)}</select></label>
      )}
      {active && <button type="button" class="plain" onClick={() => { choosePart(""); chooseSize(""); chooseClients(""); leave(new Set()); }}>Show all</button>}
      <a href="#contents">Contents</a>
    </form>
  );
  const shown = useMemo(() => (active ? narrowed(run, keeps) : run), [JSON.stringify([part, size, clients, [...left]])]);
  return { shown, bar: several && bar };
}

/** One of the options that the address keeps; empty for all of them. */
function useOne(key: string, options: string[]): [chosen: string, choose: (option: string) => void] {
  const [[value = ""], keep] = useKept(key);
  return [options.length > 1 && options.includes(value) ? value : "", (option) => keep(option ? [option] : [])];
}

function Select({ label, options, chosen, show = String, choose }: { label: string; options: string[]; chosen: string; show?: (option: string) => string; choose: (option: string) => void }) {
  if (options.length < 2) return null;
  return (
    <label>{label} <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
      <option value="">all</option>
      {options.map((option) => <option key={option} value={option}>{show(option)}</option>)}
    </select></label>
  );
}

function narrowed(run: Run, keeps: (of: Placed) => boolean): Run {
  const kept = new Map(run.insights.flatMap((of, place) => (keeps(of) ? [place] : [])).map((place, now) => [place, now]));
  return {
    ...run,
    cells: run.cells.filter(keeps), comparisons: run.comparisons.filter(keeps), crossovers: run.crossovers.filter(keeps),
    limits: run.limits.filter(keeps), warm_ups: run.warm_ups.filter(keeps), contrasts: run.contrasts.filter(keeps),
    scalings: run.scalings.filter(keeps), allocations: run.allocations.filter(keeps), levers: run.levers.filter(keeps),
    knees: run.knees.filter((knee) => keeps({ ...knee, clients: undefined })), // its clients are those at the knee
    profiles: { ...run.profiles, list: run.profiles.list.filter(keeps) },
    insights: run.insights.filter(keeps),
    pairs: run.pairs.flatMap((pair) => (kept.has(pair.of) && (pair.against === null || kept.has(pair.against)) ? [{ ...pair, of: kept.get(pair.of)!, against: pair.against === null ? null : kept.get(pair.against)! }] : [])),
  };
}
