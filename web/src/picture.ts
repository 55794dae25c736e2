// A figure of the page as an SVG that needs neither the page nor its style sheet:
// its drawings are copied with the styles that they have, and its texts and grounds
// are set where they stand.

const styles = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-family", "font-weight", "text-anchor", "overflow"];
const margin = 12;

export function pictureOf(figure: HTMLElement): string {
  const box = figure.getBoundingClientRect();
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const put = (name: string, attributes: Record<string, string | number>, text = "") => {
    const element = svg.appendChild(document.createElementNS(svg.namespaceURI, name));
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    element.textContent = text;
  };
  const placed = (rect: DOMRect) => ({ x: rect.left - box.left, y: rect.top - box.top, width: rect.width, height: rect.height });
  let bottom = 0;
  const walk = (node: Node) => {
    if (node instanceof Text) return linesOf(node).forEach(({ text, rect }) => {
      const { color, fontSize, fontFamily, fontWeight } = getComputedStyle(node.parentElement!);
      put("text", { x: rect.left - box.left, y: (rect.top + rect.bottom) / 2 - box.top + 0.35 * parseFloat(fontSize), fill: color, "font-size": fontSize, "font-family": fontFamily, "font-weight": fontWeight }, text);
    });
    if (!(node instanceof Element) || node.matches(".export, details, button.plain, .more, .tip, .hidden")) return;
    const rect = node.getBoundingClientRect();
    const { display, backgroundColor } = getComputedStyle(node);
    if (display === "none") return;
    bottom = Math.max(bottom, rect.bottom - box.top);
    if (node instanceof SVGSVGElement) return void svg.append(copyOf(node, placed(rect)));
    if (node !== figure && backgroundColor !== "rgba(0, 0, 0, 0)") put("rect", { ...placed(rect), fill: backgroundColor });
    if (node instanceof HTMLCanvasElement) return put("image", { ...placed(rect), href: node.toDataURL() });
    node.childNodes.forEach(walk);
  };
  put("rect", { width: "100%", height: "100%", fill: getComputedStyle(figure).backgroundColor });
  figure.childNodes.forEach(walk); // the figure itself ends below what is left out
  const size = { width: Math.ceil(box.width), height: Math.ceil(bottom + margin) };
  for (const [key, value] of Object.entries(size)) svg.setAttribute(key, String(value));
  return new XMLSerializer().serializeToString(svg);
}

/** The lines of a text as the page has broken them. */
function linesOf(node: Text): { text: string; rect: DOMRect }[] {
  const lines: { text: string; rect: DOMRect }[] = [];
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const rect = range.getBoundingClientRect();
    const last = lines.at(-1);
    if (rect.width === 0) continue;
    if (last && last.rect.top === rect.top) last.text += ` ${word}`;
    else lines.push({ text: word, rect });
  }
  return lines;
}

function copyOf(drawing: SVGSVGElement, place: Record<string, number>): Node {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [own, copies] = [[drawing, ...drawing.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  own.forEach((element, i) => {
    const css = getComputedStyle(element);
    for (const name of styles) copies[i]!.setAttribute(name, css.getPropertyValue(name));
    copies[i]!.removeAttribute("style");
    copies[i]!.removeAttribute("class");
  });
  for (const [key, value] of Object.entries(place)) copy.setAttribute(key, String(value));
  return copy;
}
