// Effects as ratios with their intervals, a line each over one logarithmic axis
// with a line at 1. It is a table: what is drawn stands beside it in words.

import { useState } from "preact/hooks";
import { logTicks, spaced } from "./axis";
import { plain, short, times } from "./format";
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
  gap?: number; // least distance of two ticks, in percent of the strip
  heading?: "h2" | "h3"; // level of the title
}

export function Forest({ title, note, subject, below, above, effects, few, gap = 9, heading: Heading = "h3" }: Props) {
  const [all, setAll] = useState(false);
  const shown = all ? effects : effects.slice(0, few);
  const place = scaleOf(shown);
  const ticks = spaced(logTicks(place.range, 9).filter((tick) => tick !== 1 && Math.abs(place(tick) - place(1)) > gap - 2 && place(tick) < 97), place, gap);
  return (
    <figure class="chart forest">
      <figcaption>
        <Heading>{title}</Heading>
        {note && <p class="note">{note}</p>}
      </figcaption>
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
                <td class="strip">
                  <div class="lane-of-one" aria-hidden="true">
                    {ticks.map((tick) => <i key={tick} class="grid" style={{ left: `${place(tick)}%` }} />)}
                    <i class="one" style={{ left: `${place(1)}%` }} />
                    <Drawn effect={effect} place={place} />
                  </div>
                </td>
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
    </figure>
  );
}

interface Scale {
  (ratio: number): number; // in percent of the strip
  range: [low: number, high: number];
}

/** Around all points and 1; an interval that goes far beyond them is cut off. */
function scaleOf(effects: Effect[]): Scale {
  const points = [1, ...effects.flatMap(({ ratio, claimed }) => [ratio, claimed ?? ratio])];
  const [least, most] = [Math.min(...points), Math.max(...points)];
  const room = Math.max(1.6, Math.sqrt(most / least));
  const low = Math.max(least / room, Math.min(least, ...effects.map((effect) => effect.low ?? effect.ratio)));
  const high = Math.min(most * room, Math.max(most, ...effects.map((effect) => effect.high ?? effect.ratio)));
  const across = Math.log(high / low) || 1;
  const scale = (ratio: number) => 4 + 92 * Math.min(1.03, Math.max(-0.03, Math.log(ratio / low) / across));
  return Object.assign(scale, { range: [low, high] as [number, number] });
}

function Drawn({ effect, place }: { effect: Effect; place: Scale }) {
  const { low, high, ratio, claimed, side } = effect;
  const [from, to] = [low ?? ratio, high ?? ratio];
  return (
    <>
      {low !== undefined && <i class={`range ${from < place.range[0] ? "cut-low" : ""} ${to > place.range[1] ? "cut-high" : ""}`} style={{ left: `${place(from)}%`, width: `${place(to) - place(from)}%` }} />}
      {claimed !== undefined && <i class="claimed" style={{ left: `${place(claimed)}%` }} />}
      <i class="at" style={{ left: `${place(ratio)}%` }}><Mark side={side} /></i>
    </>
  );
}

function Mark({ side }: { side: Side }) {
  return (
    <svg class={`mark ${side}`} width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true">
      {side === "below" && <path d="M-6 0L4-5.5V5.5Z" />}
      {side === "above" && <path d="M6 0L-4-5.5V5.5Z" />}
      {side === "at" && <rect x="-4.5" y="-4.5" width="9" height="9" />}
      {side === "open" && <circle r="4.2" />}
    </svg>
  );
}

const meanings: [Side, string][] = [["below", "certainly below 1"], ["above", "certainly above 1"], ["at", "equal within the margin"], ["open", "not certain"]];

/** What the marks mean, as far as they occur. */
function Key({ effects }: { effects: Effect[] }) {
  return (
    <ul class="legend">
      {meanings.filter(([side]) => effects.some((effect) => effect.side === side)).map(([side, text]) => <li key={side}><Mark side={side} /> {text}</li>)}
      {effects.some(({ low }) => low !== undefined) && <li><i class="range-swatch" /> interval over the repeats</li>}
      {effects.some(({ claimed }) => claimed !== undefined) && <li><i class="claimed-swatch" /> what is claimed</li>}
    </ul>
  );
}
