// Which differences are real: the clearest and largest as a picture, and every
// pair at every point as a table, in the order of the scenario.

import { Table } from "../export";
import { useMemo } from "preact/hooks";
import { useKeptChoice } from "../address";
import { Choice } from "../controls";
import { distinct, inOrder, type Cell, type Comparison, type Run, variantTitle } from "../data";
import { Forest, type Effect, type Side } from "../forest";
import { plain, sizes, times } from "../format";
import type { Look } from "../look";
import { Swatch } from "../marks";
import { Variant } from "../name";
import { counted, loadText } from "../words";
import type { Figures } from "../table";

interface Props {
  run: Run;
  looks: Map<string, Look>;
}

const metricNames = { mean: "Mean", p99: "P99", throughput: "Throughput", cpu: "CPU time" };
type Metric = keyof typeof metricNames;
const metrics = Object.keys(metricNames) as Metric[];

export function Differences({ run, looks }: Props) {
  const ordered = useMemo(() => inOrder(run.cells, run.comparisons.map(againstEarlier(run.cells)), ({ b }) => b, ({ a }) => a), [run]);
  if (ordered.length === 0) return null;
  return (
    <section id="comparisons">
      <h2>Differences</h2>
      <p class="note">The ratio of two variants' figures at one point. A verdict depends on the interval of the ratio and on the number of comparisons. If no difference is certain, the smallest of 1, 2, 5 and 10 % that holds the interval is stated.</p>
      <Clearest cells={run.cells} ordered={ordered} looks={looks} />
      <Pairs run={run} ordered={ordered} looks={looks} />
    </section>
  );
}

const opposite = { faster: "slower", slower: "faster", more: "less", less: "more", equivalent: "equivalent", undecided: "undecided" } as const;

/** Tells a difference from the side of the variant that the scenario names later. */
function againstEarlier(cells: Cell[]): (pair: Comparison) => Comparison {
  const variants = distinct(cells.map(({ variant }) => variant));
  return (pair) => {
    if (pair.ratio === null || variants.indexOf(pair.a) > variants.indexOf(pair.b)) return pair;
    const turned: Comparison = { ...pair, a: pair.b, b: pair.a, ratio: 1 / pair.ratio, verdict: opposite[pair.verdict] };
    const interval = pair.intervals["ratio"];
    if (interval) turned.intervals = { ratio: { ...interval, low: 1 / interval.high, high: 1 / interval.low } };
    return turned;
  };
}

const few = 8; // differences at first, and of those without a verdict where there are no others

function Clearest({ cells, ordered, looks }: { cells: Cell[]; ordered: Comparison[]; looks: Map<string, Look> }) {
  const firsts = useMemo(() => new Map(cells.toReversed().map(({ part, variant }) => [part, variant])), [cells]);
  const known = metrics.filter((metric) => ordered.some((pair) => pair.metric === metric));
  const parts = distinct(ordered.map(({ part }) => part));
  const [metric, setMetric] = useKeptChoice("difference", known);
  const pairs = ordered.filter((pair) => pair.metric === metric && pair.ratio !== null);
  const decided = pairs.filter(({ verdict }) => verdict !== "undecided").length;
  const effects = useMemo(() => byClarity(pairs, firsts).map((pair): Effect => ({
    key: keyOf(pair),
    name: <><Swatch look={looks.get(pair.a)!} /> {pair.a} <small>over</small> <Swatch look={looks.get(pair.b)!} /> {pair.b}</>,
    note: [...(parts.length > 1 ? [pair.part] : []), point(pair)].join(", "),
    ratio: pair.ratio!, low: pair.intervals["ratio"]?.low, high: pair.intervals["ratio"]?.high,
    side: sideOf(pair), word: wordOf(pair),
  })), [ordered, metric]);
  const more = metric === "throughput" ? "faster" : metric === "cpu" ? "more" : "slower";
  const less = { faster: "slower", slower: "faster", more: "less" }[more];
  return (
    <>
      <div class="choices">
        <Choice label="Figure" options={known} chosen={metric} show={(name) => metricNames[name]} choose={setMetric} />
      </div>
      <Forest
        title={`${metricNames[metric]}: one stack's over another's`}
        note={caption(pairs)}
        subject="Stack divided by another" below={less} above={more} effects={effects} few={Math.min(few, decided) || 3} rest={openText(pairs)}
      />
    </>
  );
}

/** The pairs without a verdict, in one line. */
function openText(pairs: Comparison[]): string {
  const open = pairs.filter(({ verdict }) => verdict === "undecided");
  const bare = open.filter((pair) => !pair.intervals["ratio"]).length;
  const texts = [bare > 0 && `${counted(bare, "pair")}: too few trials for an interval`, open.length > bare && `${counted(open.length - bare, "pair")}: undecided, the interval contains 1`];
  return texts.filter(Boolean).join("; ");
}

/** What the picture says, in a sentence. */
function caption(pairs: Comparison[]): string {
  const clear = pairs.filter((pair) => sideOf(pair) === "below" || sideOf(pair) === "above").length;
  const alike = pairs.filter((pair) => sideOf(pair) === "at").length;
  if (pairs.every((pair) => !pair.intervals["ratio"])) return "No verdict: there are too few trials for intervals. These are the measured ratios, the largest of each part in turn.";
  return `${clear} of ${counted(pairs.length, "pair")} certainly differ${alike > 0 ? `, ${alike} ${alike === 1 ? "is" : "are"} equal within a margin` : ""}. If a line crosses 1, there may be no difference. The clearest differences of each part come first, in turn.`;
}

/**
 * Those with a verdict first, before all others those against the variant that
 * their part names first. Each part has its clearest in turn, so that one part of
 * many variants does not fill the picture.
 */
function byClarity(pairs: Comparison[], firsts: Map<string, string>): Comparison[] {
  const ranked = pairs.map((pair) => {
    const interval = pair.intervals["ratio"];
    const { low, high } = interval ?? { low: pair.ratio!, high: pair.ratio! };
    const verdict = { below: 0, above: 0, at: 1, open: interval ? 2 : 3 }[sideOf(pair)];
    return {
      pair,
      rank: 2 * verdict + Number(firsts.get(pair.part) !== pair.b),
      far: low > 1 ? Math.log(low) : high < 1 ? -Math.log(high) : 0, // from 1, at the least
      turn: 0,
    };
  });
  ranked.sort((a, b) => a.rank - b.rank || b.far - a.far || Math.abs(Math.log(b.pair.ratio!)) - Math.abs(Math.log(a.pair.ratio!)));
  const turns = new Map<string, number>();
  for (const one of ranked) {
    const of = `${one.rank} ${one.pair.part}`;
    one.turn = turns.get(of) ?? 0;
    turns.set(of, one.turn + 1);
  }
  return ranked.sort((a, b) => a.rank - b.rank || a.turn - b.turn).map(({ pair }) => pair);
}

/** The verdict in words. */
function wordOf({ verdict, margin }: Comparison): string {
  return verdict === "equivalent" ? `equal within ${plain(Math.round(margin * 100))} %` : verdict;
}

function sideOf({ verdict, ratio }: Comparison): Side {
  if (verdict === "undecided") return "open";
  if (verdict === "equivalent") return "at";
  return ratio! < 1 ? "below" : "above";
}

function point(pair: Comparison): string {
  const size = sizes(pair.request_bytes, pair.response_bytes);
  return [size === "–" ? "" : size, counted(pair.clients, "client")].filter(Boolean).join(", ");
}

/** What names two variants at a point. */
function pairKey(pair: Comparison): string {
  return JSON.stringify([pair.part, pair.a, pair.b, pair.workload, pair.request_bytes, pair.response_bytes, pair.clients, pair.load]);
}

function keyOf(pair: Comparison): string {
  return pair.metric + pairKey(pair);
}

/** Every pair at every point, a row each with its figures side by side. */
function Pairs({ run, ordered, looks }: Props & { ordered: Comparison[] }) {
  const parts = useMemo(() => Map.groupBy(ordered, ({ part }) => part), [ordered]);
  const [figures, setFigures] = useKeptChoice<Figures>("differences", ["main", "all"]);
  const known = metrics.filter((metric) => ordered.some((pair) => pair.metric === metric));
  return (
    <>
      <h3>Every pair</h3>
      <div class="choices">
        <Choice label="Figures" options={["main", "all"] as Figures[]} chosen={figures} show={(name) => ({ main: "The main ones", all: "All" })[name]} choose={setFigures} />
      </div>
      {[...parts].map(([part, pairs]) => (
        <details class="of-part" key={part} >
          <summary>{parts.size > 1 ? `${part}: ` : ""}{summary(pairs)}</summary>
          <PairTable run={run} pairs={pairs} known={known} looks={looks} figures={figures} />
        </details>
      ))}
    </>
  );
}

function summary(pairs: Comparison[]): string {
  const rows = new Set(pairs.map(pairKey)).size;
  const clear = pairs.filter(({ verdict }) => verdict !== "undecided").length;
  return `${counted(rows, "pair")}, ${clear} of ${counted(pairs.length, "figure")} with a verdict`;
}

interface TableProps extends Props {
  pairs: Comparison[];
  known: Metric[];
  figures: Figures;
}

function PairTable({ run, pairs, known, looks, figures }: TableProps) {
  const rows = useMemo(() => [...Map.groupBy(pairs, pairKey)], [pairs]);
  const sized = rows.some(([, [first]]) => first!.request_bytes + first!.response_bytes > 0);
  const loads = new Set(pairs.map(({ load }) => loadText(load))).size > 1;
  return (
    <Table name={`Differences in ${pairs[0]!.part}`} tall class="pairs" titles={[variantTitle, "Over", sized && "#Size", "#Clients", ...known.map((metric) => `#${metricNames[metric]}`), loads && "Load"]} rows={rows.map(([key, same]) => {
      const first = same[0]!;
      const named = (name: string) => <><Swatch look={looks.get(name)!} /> <Variant cells={run.cells} part={first.part} name={name} /></>;
      return {
        key, cells: [
          named(first.a), named(first.b), sizes(first.request_bytes, first.response_bytes), plain(first.clients),
          ...known.map((metric) => <Ratio pair={same.find((pair) => pair.metric === metric)} figures={figures} />), loadText(first.load),
        ],
      };
    })} />
  );
}

function Ratio({ pair, figures }: { pair: Comparison | undefined; figures: Figures }) {
  if (!pair || pair.ratio === null) return <span class="faint">–</span>;
  const [interval, open] = [pair.intervals["ratio"], pair.verdict === "undecided"];
  return (
    <span class={open ? "faint" : ""}>
      {times(pair.ratio)} {open ? "" : wordOf(pair)}
      {interval && <small class="interval">{times(interval.low)} to {times(interval.high)}</small>}
      {figures === "all" && <small class="interval">{open && "undecided, "}{pair.p !== null && `p ${pair.p < 0.001 ? "< 0.001" : pair.p.toFixed(3)}, `}{counted(pair.pairs, "repeat")}</small>}
    </span>
  );
}
