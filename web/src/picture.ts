// A figure of the page as an SVG that needs neither the page nor its style sheet:
// its drawings are copied with the styles that they have, and its texts, grounds,
// hatchings and borders are set where they stand.

const styles = ["stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-family", "font-weight", "text-anchor", "overflow"];
const margin = 12;
const sides = ["top", "right", "bottom", "left"] as const;

type Attributes = Record<string, string | number>;

export function pictureOf(figure: HTMLElement): string {
  const box = figure.getBoundingClientRect();
  const svg = made("svg", {});
  const put = (name: string, attributes: Attributes, text = "") => void (svg.appendChild(made(name, attributes)).textContent = text);
  const placed = (rect: DOMRect) => ({ x: rect.left - box.left, y: rect.top - box.top, width: rect.width, height: rect.height });
  const hatchings = new Map<string, string>(); // the id of each by its style
  const ids = `h${Math.random().toString(36).slice(2)}-`; // two pictures in one document keep apart
  const hatched = ({ backgroundImage: image, backgroundSize: size }: CSSStyleDeclaration) => {
    const key = `${image} ${size}`;
    const id = hatchings.get(key) ?? ids + hatchings.size;
    const hatching = hatchings.has(key) ? null : hatchingOf(image, parseFloat(size), id);
    if (hatching) svg.querySelector("defs")!.append(hatching);
    if (hatching) hatchings.set(key, id);
    return hatchings.has(key) ? `url(#${id})` : "";
  };
  let [right, bottom] = [box.width, 0];
  const ground = (rect: DOMRect, css: CSSStyleDeclaration) => {
    const corners = { ...placed(rect), rx: parseFloat(css.borderTopLeftRadius) || 0 };
    const [colour, opacity] = plainColour(css.backgroundColor);
    if (opacity > 0) put("rect", { ...corners, fill: colour, "fill-opacity": opacity });
    const hatching = css.backgroundImage === "none" ? "" : hatched(css);
    if (hatching) put("rect", { ...corners, fill: hatching });
    for (const side of sides) {
      const [wide, style] = [parseFloat(css.getPropertyValue(`border-${side}-width`)), css.getPropertyValue(`border-${side}-style`)];
      const [stroke, seen] = plainColour(css.getPropertyValue(`border-${side}-color`));
      if (wide > 0 && style !== "none" && seen > 0) put("line", { ...borderOf(placed(rect), side, wide / 2), stroke, "stroke-opacity": seen, "stroke-width": wide, "stroke-dasharray": style === "dashed" ? `${2 * wide} ${wide}` : "none" });
    }
  };
  const walk = (node: Node) => {
    if (node instanceof Text) return linesOf(node).forEach(({ text, rect }) => {
      const { color, fontSize, fontFamily, fontWeight } = getComputedStyle(node.parentElement!);
      // With its length, it keeps its room where another font replaces this one.
      put("text", { x: rect.left - box.left, y: (rect.top + rect.bottom) / 2 - box.top + 0.35 * parseFloat(fontSize), textLength: rect.width, lengthAdjust: "spacingAndGlyphs", fill: plainColour(color)[0], "font-size": fontSize, "font-family": fontFamily, "font-weight": fontWeight }, text);
    });
    if (!(node instanceof Element) || node.matches(".export, details, button.plain, .more, .tip, .hidden")) return;
    const rect = node.getBoundingClientRect();
    const css = getComputedStyle(node);
    if (css.display === "none") return;
    right = Math.max(right, rect.right - box.left + margin);
    bottom = Math.max(bottom, rect.bottom - box.top);
    if (node instanceof SVGSVGElement) return void svg.append(copyOf(node, placed(rect)));
    ground(rect, css);
    if (node instanceof HTMLCanvasElement) return put("image", { ...placed(rect), href: node.toDataURL() });
    node.childNodes.forEach(walk);
  };
  put("defs", {});
  put("rect", { width: "100%", height: "100%", fill: plainColour(getComputedStyle(figure).backgroundColor)[0] });
  figure.childNodes.forEach(walk); // the figure itself ends below what is left out
  for (const [key, value] of Object.entries({ width: Math.ceil(right), height: Math.ceil(bottom + margin) })) svg.setAttribute(key, String(value));
  return new XMLSerializer().serializeToString(svg);
}

function made(name: string, attributes: Attributes): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** The line along one side of a box. */
function borderOf({ x, y, width, height }: { x: number; y: number; width: number; height: number }, side: (typeof sides)[number], inset: number): Attributes {
  const [left, top, right, bottom] = [x + inset, y + inset, x + width - inset, y + height - inset];
  const upright = side === "left" || side === "right";
  return {
    x1: side === "right" ? right : upright ? left : x, x2: side === "left" ? left : upright ? right : x + width,
    y1: side === "bottom" ? bottom : upright ? y : top, y2: side === "top" ? top : upright ? y + height : bottom,
  };
}

const colour = String.raw`[a-z-]+\([^()]*\)`;
const stop = new RegExp(String.raw`(${colour}) ([\d.]+)px`, "g");

/** The lines or dots of a background of the style sheet; null for other images. */
function hatchingOf(image: string, size: number, id: string): SVGElement | null {
  const stops = [...image.matchAll(stop)].map(([, of, at]) => [...plainColour(of!), Number(at)] as const);
  const last = stops.at(-1)?.[2];
  if (!last) return null;
  if (image.startsWith("radial-gradient")) {
    const dots = made("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse" });
    dots.append(made("circle", { cx: size / 2, cy: size / 2, r: stops[0]![2], fill: stops[0]![0], "fill-opacity": stops[0]![1] }));
    return dots;
  }
  if (!image.startsWith("repeating-linear-gradient")) return null;
  const angle = (Number(/\((-?[\d.]+)deg/.exec(image)?.[1] ?? 180) * Math.PI) / 180;
  const lines = made("linearGradient", { id, gradientUnits: "userSpaceOnUse", spreadMethod: "repeat", x1: 0, y1: 0, x2: last * Math.sin(angle), y2: -last * Math.cos(angle) });
  lines.append(...stops.map(([of, opacity, at]) => made("stop", { offset: at / last, "stop-color": of, "stop-opacity": opacity })));
  return lines;
}

const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true })!;

/** A colour as #rrggbb with its opacity, which all programs know, unlike color() and color-mix(). */
function plainColour(css: string): [colour: string, opacity: number] {
  pixel.clearRect(0, 0, 1, 1);
  pixel.fillStyle = css;
  pixel.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
  return [`#${[red, green, blue].map((part) => part!.toString(16).padStart(2, "0")).join("")}`, Math.round((100 * alpha!) / 255) / 100];
}

/** The lines of a text as the page has broken them. */
function linesOf(node: Text): { text: string; rect: DOMRect }[] {
  const lines: { text: string; from: number; to: number; rect: DOMRect }[] = [];
  const range = document.createRange();
  const placed = (from: number, to: number) => {
    range.setStart(node, from);
    range.setEnd(node, to);
    return range.getBoundingClientRect();
  };
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    const to = index + word.length;
    const rect = placed(index, to);
    const last = lines.at(-1);
    if (rect.width === 0) continue;
    if (last && last.rect.top === rect.top) Object.assign(last, { text: `${last.text} ${word}`, to, rect: placed(last.from, to) });
    else lines.push({ text: word, from: index, to, rect });
  }
  return lines;
}

function copyOf(drawing: SVGSVGElement, place: Attributes): Node {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [own, copies] = [[drawing, ...drawing.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  own.forEach((element, i) => {
    const css = getComputedStyle(element);
    for (const name of styles) copies[i]!.setAttribute(name, css.getPropertyValue(name));
    for (const name of ["fill", "stroke"]) {
      const value = css.getPropertyValue(name);
      copies[i]!.setAttribute(name, value === "none" ? value : plainColour(value)[0]);
    }
    copies[i]!.removeAttribute("style");
    copies[i]!.removeAttribute("class");
  });
  for (const [key, value] of Object.entries(place)) copy.setAttribute(key, String(value));
  return copy;
}
