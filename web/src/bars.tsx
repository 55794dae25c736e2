// Bars of parts that add up, one below the other, with the figures as text.

import { Drawing, Grid } from "./export";

export interface Segment {
  name: string;
  value: number | null;
  colour: string; // the name of a CSS variable
}

export interface Bar {
  name: string;
  note?: string; // in small letters beneath the name
  segments: Segment[];
  total: string;
}

interface Props {
  title: string;
  note?: string;
  bars: Bar[];
  show: (value: number) => string;
}

const width = 1000; // of the drawing, which is stretched to the room there is

export function Bars({ title, note, bars, show }: Props) {
  const drawn = (bar: Bar) => bar.segments.filter((segment) => segment.value !== null && segment.value > 0);
  const longest = Math.max(...bars.map((bar) => drawn(bar).reduce((sum, { value }) => sum + value!, 0)));
  const legend = new Map(bars.flatMap((bar) => drawn(bar)).map((segment) => [segment.name, segment.colour]));
  if (!(longest > 0)) return null;
  return (
    <Drawing title={title} note={note} figures={<Figures bars={bars} names={[...legend.keys()]} show={show} />}>
      <ul class="legend">
        {[...legend].map(([name, colour]) => (
          <li key={name}>
            <svg class="swatch" width="12" height="12" aria-hidden="true"><rect width="12" height="12" rx="2" fill={`var(${colour})`} /></svg> {name}
          </li>
        ))}
      </ul>
      <div class="bars">
        {bars.map((bar) => {
          let from = 0;
          return (
            <div class="bar" key={`${bar.name} ${bar.note}`}>
              <div class="bar-name">{bar.name}{bar.note && <small> {bar.note}</small>}</div>
              <svg viewBox={`0 0 ${width} 20`} preserveAspectRatio="none" role="img" aria-label={`${bar.name}: ${drawn(bar).map(({ name, value }) => `${name} ${show(value!)}`).join(", ")}`}>
                {drawn(bar).map((segment) => {
                  const long = (segment.value! / longest) * width;
                  const x = from;
                  from += long;
                  return <rect key={segment.name} x={x} width={Math.max(1, long - 2)} height="20" fill={`var(${segment.colour})`}><title>{segment.name} {show(segment.value!)}</title></rect>;
                })}
              </svg>
              <div class="bar-total">{bar.total}</div>
            </div>
          );
        })}
      </div>
    </Drawing>
  );
}

function Figures({ bars, names, show }: Pick<Props, "bars" | "show"> & { names: string[] }) {
  const valueOf = (bar: Bar, name: string) => bar.segments.find((segment) => segment.name === name)?.value ?? null;
  return (
    <Grid titles={["Of", ...names.map((name) => `#${name}`), "#Together"]} rows={bars.map((bar) => ({
      key: `${bar.name} ${bar.note}`,
      cells: [<>{bar.name}{bar.note && <small> {bar.note}</small>}</>, ...names.map((name) => { const value = valueOf(bar, name); return value === null ? "–" : show(value); }), bar.total],
    }))} />
  );
}
