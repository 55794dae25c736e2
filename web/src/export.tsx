// Each chart as SVG and PNG, and each table as CSV and Markdown: saved, or copied.

import { useRef, useState } from "preact/hooks";
import { pictureOf } from "./picture";

interface Props {
  name: string;
  only?: "table" | "picture";
}

type Format = "SVG" | "PNG" | "CSV" | "Markdown";
const pictures: [Format, string][] = [["SVG", "Save as SVG"], ["PNG", "Save as PNG"]];
const tables: [Format, string][] = [["CSV", "Save as CSV"], ["Markdown", "Copy as Markdown"]];

/** The exports of the figure or the table around it. */
export function Export({ name, only }: Props) {
  const self = useRef<HTMLParagraphElement>(null);
  const [done, setDone] = useState("");
  const write = async (format: Format) => {
    const around = self.current!.closest<HTMLElement>("figure, .exported")!;
    const file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60);
    if (format === "Markdown") setDone((await copy(markdown(rowsOf(around)))) ? "copied" : "the browser does not allow copying");
    else if (format === "CSV") save(`${file}.csv`, `data:text/csv;charset=utf-8,${encodeURIComponent(csv(rowsOf(around)))}`);
    else {
      const picture = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(pictureOf(around))}`;
      save(`${file}.${format.toLowerCase()}`, format === "SVG" ? picture : await pixels(picture));
    }
  };
  const formats: [Format, string][] = [...(only === "table" ? [] : pictures), ...(only === "picture" ? [] : tables)];
  return (
    <p class="export" ref={self}>
      {formats.map(([format, does]) => <button type="button" key={format} aria-label={`${does}: ${name}`} title={does} onClick={() => void write(format)}>{format}</button>)}
      <span role="status">{done}</span>
    </p>
  );
}

interface DrawingProps {
  title: string;
  note?: preact.ComponentChildren;
  class?: string;
  heading?: "h2" | "h3" | "h4";
  figures?: preact.ComponentChildren; // the table of what is drawn
  only?: "picture"; // the figures have exports of their own
  children: preact.ComponentChildren;
}

/** The frame of every chart: its title, what is drawn, its figures and its exports. */
export function Drawing({ title, note, class: className = "", heading: Heading = "h3", figures, only, children }: DrawingProps) {
  return (
    <figure class={`chart ${className}`}>
      <figcaption>
        <Heading>{title}</Heading>
        {note && <p class="note">{note}</p>}
      </figcaption>
      {children}
      {figures && (
        <details>
          <summary>Figures of this chart</summary>
          {only ? figures : <div class="scroll" tabIndex={0}>{figures}</div>}
        </details>
      )}
      <Export name={title} only={only} />
    </figure>
  );
}

interface ScrollProps {
  name: string; // of the table
  tall?: boolean;
  children: preact.ComponentChildren;
}

/** A table that may be wider or taller than its room, with its exports. */
export function Scroll({ name, tall = false, children }: ScrollProps) {
  return (
    <div class="exported">
      <div class={tall ? "scroll tall" : "scroll"} tabIndex={0} role="group" aria-label={name}>{children}</div>
      <Export name={name} only="table" />
    </div>
  );
}

interface GridProps {
  titles: (string | false | undefined)[]; // a column without a title is left out
  rows: { key: string | number; className?: string; cells: preact.ComponentChildren[] }[];
  class?: string;
  caption?: preact.ComponentChildren;
}

/** A table whose first column names its rows. # before a title is a column of numbers, ~ one of sentences. */
export function Grid({ titles, rows, class: className, caption }: GridProps) {
  const kinds: Record<string, string> = { "#": "number", "~": "prose" };
  return (
    <table class={className}>
      {caption && <caption>{caption}</caption>}
      <Head titles={titles} />
      <tbody>
        {rows.map((row) => (
          <tr key={row.key} class={row.className}>
            {row.cells.map((cell, i) => typeof titles[i] === "string" && (i === 0 ? <th scope="row" key={i}>{cell}</th> : <td key={i} class={kinds[titles[i][0]!]}>{cell}</td>))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Such a table with its exports. */
export const Table = ({ name, tall, ...grid }: GridProps & Omit<ScrollProps, "children">) => <Scroll name={name} tall={tall}><Grid {...grid} /></Scroll>;

/** The head of a table, as in Grid. */
export function Head({ titles }: { titles: (string | false | undefined)[] }) {
  return (
    <thead>
      <tr>{titles.filter((title) => typeof title === "string").map((title, place) => <th scope="col" class={title.startsWith("#") ? "number" : undefined} key={place}>{title.replace(/^[#~]/, "")}</th>)}</tr>
    </thead>
  );
}

/** Puts a text on the clipboard. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // not allowed, or no secure page: the old way
    const field = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}

function save(name: string, href: string): void {
  Object.assign(document.createElement("a"), { download: name, href }).click();
}

const sharpness = 2; // pixels of the picture for each of the page

async function pixels(svg: string): Promise<string> {
  const image = Object.assign(new Image(), { src: svg });
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: sharpness * image.width, height: sharpness * image.height });
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

/** The texts of a table, its head first. A head of several rows becomes one. */
function rowsOf(around: HTMLElement): string[][] {
  const table = around.querySelector("table")!;
  const cells = (row: Element) => [...row.children as HTMLCollectionOf<HTMLTableCellElement>].filter((cell) => !cell.matches(".pick, .strip"));
  const head: string[] = [];
  for (const [level, row] of [...table.querySelectorAll("thead tr")].entries()) {
    let at = 0;
    for (const cell of cells(row)) {
      while (level > 0 && head[at]?.endsWith("\n")) at++; // it reaches down to here
      for (let i = 0; i < cell.colSpan; i++, at++) head[at] = `${head[at] ?? ""} ${textOf(cell)}`.trim() + (cell.rowSpan > 1 ? "\n" : "");
    }
  }
  const body = [...table.querySelectorAll("tbody tr:not(.opened)")].map((row) => cells(row).flatMap((cell) => [textOf(cell), ...Array<string>(cell.colSpan - 1).fill("")]));
  return [head.map((title) => title.trim()), ...body];
}

function textOf(node: Node): string {
  if (node instanceof Element && node.matches("svg")) return "";
  if (node.childNodes.length === 0) return (node.textContent ?? "").trim();
  return [...node.childNodes].map(textOf).filter(Boolean).join(" ").replace(/\s+/g, " ");
}

const csv = (rows: string[][]) => rows.map((row) => row.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(",") + "\n").join("");

function markdown([head = [], ...body]: string[][]): string {
  const line = (row: string[]) => `| ${row.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |\n`;
  return line(head) + line(head.map((_, i) => (i > 0 && body.every((row) => /^[–\d]/.test(row[i] ?? "")) ? "---:" : "---"))) + body.map(line).join("");
}
