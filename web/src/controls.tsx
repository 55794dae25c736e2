// Choices that stand above a chart or a table.

import { useId } from "preact/hooks";

interface ChoiceProps<T extends string | number> {
  label: string;
  options: T[];
  chosen: T;
  show?: (option: T) => string;
  choose: (option: T) => void;
}

/** One of a few, all of them in sight. With one option there is no choice. */
export function Choice<T extends string | number>({ label, options, chosen, show = String, choose }: ChoiceProps<T>) {
  const group = useId();
  if (options.length < 2) return null;
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      <div class="options">
        {options.map((option) => (
          <label key={option}>
            <input type="radio" name={group} checked={option === chosen} onChange={() => choose(option)} />
            <span>{show(option)}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
