// The ten words that a report cannot do without. docs/glossary.md has them too.

const words: [word: string, meaning: string][] = [
  ["Cell", "One stack with its options, measured at one message size and one number of clients."],
  ["Point", "All stacks at one message size and one number of clients: what is compared with each other."],
  ["Trial", "One measurement of a cell from start to stop, in fresh processes."],
  ["Repeat", "One trial of every cell; a run measures several repeats, each in another order."],
  ["Valid", "A trial is valid if no check found a fault that would shift its figures."],
  ["Verdict", "What the data say about a difference or a claim, such as faster, equal, or undecided."],
  ["Interval", "The range in which the true value lies with 95 % confidence, computed from the trials."],
  ["Window", "The part of a trial that is measured, after the warm-up."],
  ["Neighbour", "Another program that used the machine's CPUs while a trial was measured."],
  ["Stage", "A part of a call's way, such as the kernel's send or the wait for a CPU."],
];

export function Glossary() {
  return (
    <section id="glossary">
      <h2>Glossary</h2>
      <dl class="host">{words.map(([word, meaning]) => <><dt>{word}</dt><dd>{meaning}</dd></>)}</dl>
    </section>
  );
}
