import type { Look } from "./look";

/** A short piece of a line, as it stands in the charts, or its mark alone. */
export function Swatch({ look, apart = false }: { look: Look; apart?: boolean }) {
  const colour = `var(${look.colour})`;
  return (
    <svg class="swatch" width="26" height="12" viewBox="-13 -6 26 12" aria-hidden="true">
      {!apart && <line x1="-12" x2="12" y1="0" y2="0" stroke={colour} stroke-width="2" stroke-dasharray={look.dash.join(" ")} />}
      {look.shape === "circle" && <circle r="3.5" fill={colour} />}
      {look.shape === "square" && <rect x="-3.2" y="-3.2" width="6.4" height="6.4" fill={colour} />}
      {look.shape === "triangle" && <path d="M0-4.2L4 3H-4Z" fill={colour} />}
      {look.shape === "diamond" && <path d="M0-4.4L4.4 0L0 4.4L-4.4 0Z" fill={colour} />}
    </svg>
  );
}
