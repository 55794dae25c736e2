import glossary from "../../../docs/glossary.md";

const row = /\*\*(\w+)\*\* \| (.*) \|/g;

export function Glossary() {
  return (
    <section id="glossary">
      <h2>Glossary</h2>
      <dl class="host">{Array.from(glossary.matchAll(row), ([, word, meaning]) => <><dt>{word}</dt><dd>{meaning?.replaceAll("`", "")}</dd></>)}</dl>
    </section>
  );
}
