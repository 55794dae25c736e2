// Choices that stand above a chart or a table.

import { createContext } from "preact";
import { useContext, useId, useState } from "preact/hooks";

/** The section around a control. */
export const Section = createContext("");

const choices = new Map<string, unknown>();

/** A choice of one section, which is still there when the section comes back from behind the filter. */
export function useLocal<T>(name: string, usual: T): [chosen: T, choose: (next: T) => void] {
  const key = `${useContext(Section)} ${name}`;
  const [, again] = useState({});
  const choose = (next: T) => {
    choices.set(key, next);
    again({});
  };
  if (!choices.has(key)) choices.set(key, usual);
  return [choices.get(key) as T, choose];
}

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
