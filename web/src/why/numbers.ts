// Figures of a call's cost as text.

/** Microseconds with as many decimals as suit the whole, so that a column adds up. */
export function microsOf(whole: number): (us: number) => string {
  const decimals = whole >= 100 ? 1 : 2;
  return (us) => negative(us, Math.abs(us).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
}

/** A count per call, to three digits, and none beyond a thousandth. */
export function count(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 999.5) return negative(value, Math.round(size).toLocaleString("en"));
  return negative(value, size.toFixed(size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0));
}

/** A difference, with its sign. */
export function more(value: number, show: (value: number) => string): string {
  return `${value > 0 ? "+" : ""}${show(value)}`;
}

function negative(value: number, size: string): string {
  return `${value < 0 && /[1-9]/.test(size) ? "−" : ""}${size}`;
}
