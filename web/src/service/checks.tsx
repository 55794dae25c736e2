// Whether the figures can be believed: what the checks found, the worst first.

import type { Cell, JudgedCheck } from "../data";
import type { AtPoint } from "../points";
import { counted } from "../words";

interface Props {
  point: AtPoint;
  warnings: string[]; // of the whole run
}

export function Checks({ point, warnings }: Props) {
  return (
    <section id="checks">
      <h2>Are these figures valid?</h2>
      {point.where}
      {point.cells.map((cell) => (
        <div class="of-call" key={cell.key}>
          {point.cells.length > 1 && <h3>{cell.said}</h3>}
          <OfCell cell={cell} />
        </div>
      ))}
      <Others warnings={warnings} />
    </section>
  );
}

const answers: Record<string, (checks: JudgedCheck[]) => string> = {
  invalid: (checks) => `No: ${counted(checks.length, "check")} refused it.`,
  warning: (checks) => `With care: ${counted(checks.length, "check")} found something to know.`,
};

function OfCell({ cell }: { cell: Cell }) {
  const of = (level: string) => cell.checks.filter((check) => check.level === level);
  const [invalid, care, unknown, fine] = [of("invalid"), of("warning"), of("unknown"), of("ok")];
  const worst = !cell.valid && invalid.length > 0 ? invalid : care;
  return (
    <>
      <p>{worst.length > 0 ? answers[worst[0]!.level]!(worst) : "Yes: no check found a fault."}</p>
      <Found checks={invalid} bad />
      <Found checks={care} />
      {unknown.length > 0 && <p class="note">Not judged: {unknown.map(({ name, detail }) => `${name}, since ${detail}`).join("; ")}.</p>}
      {fine.length > 0 && (
        <details>
          <summary>{counted(fine.length, "check")} found nothing</summary>
          <Found checks={fine} />
        </details>
      )}
    </>
  );
}

function Found({ checks, bad = false }: { checks: JudgedCheck[]; bad?: boolean }) {
  if (checks.length === 0) return null;
  return <ul class="findings">{checks.map(({ name, detail }) => <li key={name} class={bad ? "bad" : ""}><b>{name}</b>: {detail}</li>)}</ul>;
}

/** What is said of the run besides its checks. */
function Others({ warnings }: { warnings: string[] }) {
  const others = warnings.filter((text) => !text.startsWith("the check "));
  if (others.length === 0) return null;
  return <ul class="findings">{others.map((text) => <li key={text}>{text}</li>)}</ul>;
}
