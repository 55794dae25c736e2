// Effects as ratios with their intervals, a line each over one logarithmic axis
// with a line at 1. It is a table: what is drawn stands beside it in words.

import { useLocal } from "./controls";
import { Drawing } from "./export";
import { plain, short, times } from "./format";
import type { Shape } from "./look";
import { Interval, Mark, scaleOf, spaced, ticksOf, type Scale } from "./marks";
import { counted } from "./words";

/** Where an effect lies, for sure: off 1 to one side, at 1 within the margin, or nobody knows. */
export type Side = "below" | "above" | "at" | "open";

export interface Effect {
  key: string;
  name: preact.ComponentChildren;
  note?: preact.ComponentChildren; // in small letters beneath the name
  ratio: number;
  low?: number;
  high?: number;
  side: Side;
  word: string; // the verdict
  claimed?: number; // what it was said to be elsewhere
}

interface Props {
  title: string;
  note?: string;
  subject: string; // what the lines are of, as the head of their names
  below: string; // what a ratio below 1 means
  above: string;
  effects: Effect[]; // the most telling first
  few: number; // shown until the rest is asked for
  rest?: string; // what is known of the others
  gap?: number; // least distance of two ticks, in percent of the strip
  heading?: "h2" | "h3"; // level of the title
}

export function Forest({ title, note, subject, below, above, effects, few, rest, gap = 9, heading }: Props) {
  const [all, setAll] = useLocal(`all of ${subject}, ${title}`, false);
  const shown = all ? effects : effects.slice(0, few);
  const place = around1(shown);
  const ticks = spaced(ticksOf(place, gap).filter((tick) => tick !== 1 && Math.abs(place(tick) - place(1)) > gap - 2 && place(tick) < 97), place, gap);
  return (
    <Drawing class="forest" title={title} note={note} heading={heading}>
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{subject}</th>
              <th scope="col" class="strip">
                <span class="sides"><span>← {below}</span><span>{above} →</span></span>
              </th>
              <th scope="col" class="number">Ratio</th>
              <th scope="col">Verdict</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((effect) => (
              <tr key={effect.key} class={effect.side === "open" ? "open" : ""}>
                <th scope="row">{effect.name}{effect.note && <small class="interval">{effect.note}</small>}</th>
                <td class="strip"><Lane effect={effect} place={place} ticks={ticks} /></td>
                <td class="number">{times(effect.ratio)}{effect.low !== undefined && <small class="interval">{times(effect.low)} to {times(effect.high!)}</small>}</td>
                <td class="said">{effect.word}{effect.claimed !== undefined && <small class="interval">claimed: {times(effect.claimed)}</small>}</td>
              </tr>
            ))}
          </tbody>
          <tfoot aria-hidden="true">
            <tr>
              <td />
              <td class="strip">
                <div class="axis">
                  <span class="middle" style={{ left: `${place(1)}%` }}>1×</span>
                  {ticks.map((tick) => <span key={tick} class="middle" style={{ left: `${place(tick)}%` }}>{short(plain(tick))}×</span>)}
                </div>
              </td>
              <td /><td />
            </tr>
          </tfoot>
        </table>
      </div>
      <Key effects={shown} />
      {effects.length > few && (
        <p class="more"><button type="button" class="plain" onClick={() => setAll(!all)}>{all ? `Show the first ${few}` : `Show all ${plain(effects.length)}`}</button> <small>{all ? "" : `${counted(few, "line")} of ${plain(effects.length)}`}</small></p>
      )}
      {rest && <p class="note">{rest}.</p>}
    </Drawing>
  );
}

/** In percent of the strip, around all points and 1; an interval that goes far beyond them is cut off. */
function around1(effects: Effect[]): Scale {
  const points = [1, ...effects.flatMap(({ ratio, claimed }) => [ratio, claimed ?? ratio])];
  const [least, most] = [Math.min(...points), Math.max(...points)];
  const room = Math.max(1.6, Math.sqrt(most / least));
  const low = Math.max(least / room, Math.min(least, ...effects.map((effect) => effect.low ?? effect.ratio)));
  const high = Math.min(most * room, Math.max(most, ...effects.map((effect) => effect.high ?? effect.ratio)));
  return scaleOf([low, high], true, [4, 96]);
}

const marks: Record<Side, [shape: Shape, hollow: boolean]> = { below: ["left", false], above: ["right", false], at: ["square", true], open: ["circle", true] };

function Lane({ effect: { low, high, ratio, claimed, side }, place, ticks }: { effect: Effect; place: Scale; ticks: number[] }) {
  const [from, to] = place.range;
  const x = (value: number) => `${place(Math.min(to, Math.max(from, value)))}%`;
  const colour = side === "open" ? "--muted" : "--ink";
  const upright = (value: number, stroke: string, width: number) => <line x1={x(value)} x2={x(value)} y1="0" y2="100%" stroke={`var(${stroke})`} stroke-width={width} />;
  return (
    <svg class="lane-of-one" width="100%" height="100%" aria-hidden="true">
      {ticks.map((tick) => upright(tick, "--grid", 1))}
      {upright(1, "--muted", 2)}
      {low !== undefined && <Interval from={[x(low), "50%"]} to={[x(high!), "50%"]} colour={colour} open={[low < from, high! > to]} />}
      {claimed !== undefined && <svg class="claimed" x={x(claimed)} y="50%" overflow="visible"><path d="M-2-9V9M2-9V9" stroke="var(--link)" stroke-width="1.5" /></svg>}
      <Mark shape={marks[side][0]} hollow={marks[side][1]} colour={colour} x={x(ratio)} y="50%" />
    </svg>
  );
}

const meanings: [Side, string][] = [["below", "certainly below 1"], ["above", "certainly above 1"], ["at", "equal within the margin"], ["open", "not certain"]];

/** What the marks mean, as far as they occur. */
function Key({ effects }: { effects: Effect[] }) {
  const swatch = (drawn: preact.ComponentChildren) => <svg class="swatch" width="20" height="14" viewBox="-10 -7 20 14" aria-hidden="true">{drawn}</svg>;
  return (
    <ul class="legend">
      {meanings.filter(([side]) => effects.some((effect) => effect.side === side)).map(([side, text]) => <li key={side}>{swatch(<Mark shape={marks[side][0]} hollow={marks[side][1]} colour={side === "open" ? "--muted" : "--ink"} />)} {text}</li>)}
      {effects.some(({ low }) => low !== undefined) && <li>{swatch(<Interval from={[-9, 0]} to={[9, 0]} colour="--ink" />)} interval over the repeats</li>}
      {effects.some(({ claimed }) => claimed !== undefined) && <li>{swatch(<path d="M-2-6V6M2-6V6" stroke="var(--link)" stroke-width="1.5" />)} what is claimed</li>}
    </ul>
  );
}
