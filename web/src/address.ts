// What a reader has chosen, in the part of the page's address after #, so that
// the address opens the same view again: #cells?sort=-p99&find=tcp. What comes
// before the question mark is the section, as in any link to one. A file has
// this part of an address too.

import { useEffect, useState } from "preact/hooks";

interface Place {
  section: string;
  chosen: URLSearchParams;
}

function read(): Place {
  const [section, chosen] = location.hash.slice(1).split(/\?(.*)/s);
  return { section: section!, chosen: new URLSearchParams(chosen) };
}

let place = read();
const readers = new Set<() => void>();

function show({ section, chosen }: Place): void {
  // Slashes, colons and commas need no escape there, and are easier read without.
  const text = chosen.toString().replace(/%(2F|3A|2C)/g, decodeURIComponent);
  history.replaceState(null, "", `#${section}${text && `?${text}`}`);
}

// A link to a section says nothing of choices: those of before stay.
addEventListener("hashchange", () => {
  const next = read();
  const only = !location.hash.includes("?");
  place = only ? { section: next.section, chosen: place.chosen } : next;
  unfold();
  if (only) return show(place);
  readers.forEach((again) => again());
  goToSection();
});

/** Opens what is folded around the section. */
function unfold(): void {
  const section = document.getElementById(place.section);
  const around = section?.closest("details");
  if (!section || !around || around.open) return;
  around.open = true;
  section.scrollIntoView({ behavior: "instant" });
}

/** Goes where the address says: a browser does not find a section behind which choices stand. */
export function goToSection(): void {
  unfold();
  if (place.section && place.chosen.size > 0) document.getElementById(place.section)?.scrollIntoView({ behavior: "instant" });
}

/** A choice that the address keeps, as texts; none is the usual choice. */
export function useKept(key: string): [values: string[], keep: (values: string[]) => void] {
  const [, again] = useState({});
  useEffect(() => {
    const reader = () => again({});
    readers.add(reader);
    return () => void readers.delete(reader);
  }, []);
  const keep = (values: string[]) => {
    place.chosen.delete(key);
    for (const value of values) place.chosen.append(key, value);
    show(place);
    again({});
  };
  return [place.chosen.getAll(key), keep];
}

/** One of a few. The first is the usual choice. */
export function useKeptChoice<T extends string>(key: string, options: T[]): [chosen: T, choose: (option: T) => void] {
  const [[value], keep] = useKept(key);
  const chosen = options.find((option) => option === value) ?? options[0]!;
  return [chosen, (option) => keep(option === options[0] ? [] : [option])];
}

/** Those that are left out of a list. */
export function useKeptSet<T extends string | number>(key: string, options: T[]): [left: Set<T>, change: (left: Set<T>) => void] {
  const [values, keep] = useKept(key);
  return [new Set(options.filter((option) => values.includes(String(option)))), (left) => keep([...left].map(String))];
}
