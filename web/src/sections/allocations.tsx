// Where heap allocations come from: by function, and by call tree.

import { Scroll } from "../export";
import { useState } from "preact/hooks";
import { Choice, useLocal } from "../controls";
import { distinct, type Allocation, type Branch, type Run, variantTitle } from "../data";
import { bytes, plain } from "../format";

export function Allocations({ run: { allocations } }: { run: Run }) {
  const part = allocations[0]?.part ?? "";
  const [wanted, setVariant] = useLocal("stack", "");
  const [end, setEnd] = useLocal("end", "server");
  if (allocations.length === 0) return null;
  const inPart = allocations.filter((allocation) => allocation.part === part);
  const variants = distinct(inPart.map(({ variant }) => variant));
  const variant = variants.includes(wanted) ? wanted : variants[0]!;
  const ends = inPart.filter((allocation) => allocation.variant === variant);
  const chosen = ends.find((allocation) => allocation.end === end) ?? ends[0]!;
  return (
    <section id="allocations">
      <h2>Allocations</h2>
      <p class="note">What each end allocates on its heap per call. These trials were profiled, so their speeds appear nowhere in this report; about one allocation per 4 KiB was sampled.</p>
      <Totals allocations={inPart} />
      <h3>By function</h3>
      <div class="choices">
        <Choice label="Stack" options={variants} chosen={variant} choose={setVariant} />
        <Choice label="End" options={ends.map((allocation) => allocation.end)} chosen={chosen.end} choose={setEnd} />
      </div>
      <p class="note">Functions that allocate memory themselves, in the {chosen.end} of {chosen.variant}: {plain(chosen.calls)} calls.</p>
      <Scroll name="Allocations by function">
        <table class="allocators">
          <Head title="Function" />
          <tbody>
            {chosen.functions.map(({ function: name, bytes_share, objects_share }) => (
              <tr key={name}>
                <Share value={bytes_share} />
                <Share value={objects_share} />
                <th scope="row" title={name}><code>{shortened(name)}</code></th>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <h3>By call tree</h3>
      <p class="note">Each line includes the allocations of the functions below it. Functions on one line only call the next; those with less than 2 % of bytes and of objects are left out.</p>
      <Scroll name="Allocations by call tree" tall>
        <table class="allocators tree">
          <Head title="Calls" />
          <tbody><Branches branches={chosen.tree} depth={0} /></tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Totals({ allocations }: { allocations: Allocation[] }) {
  const of = (variant: string, end: string) => allocations.find((allocation) => allocation.variant === variant && allocation.end === end);
  return (
    <Scroll name="Allocations">
      <table>
        <thead>
          <tr>
            <th scope="col" rowSpan={2}>{variantTitle}</th>
            <th scope="col" colSpan={3} class="group">Server, per call</th>
            <th scope="col" colSpan={3} class="group">Client, per call</th>
          </tr>
          <tr>
            {["server", "client"].map((end) => [
              <th scope="col" class="number" key={`${end} bytes`}>Bytes</th>,
              <th scope="col" class="number" key={`${end} objects`}>Objects</th>,
              <th scope="col" key={`${end} most`}>Most bytes by</th>,
            ])}
          </tr>
        </thead>
        <tbody>
          {distinct(allocations.map(({ variant }) => variant)).map((variant) => (
            <tr key={variant}>
              <th scope="row">{variant}</th>
              {["server", "client"].map((end) => {
                const allocation = of(variant, end);
                const most = allocation?.functions[0];
                return [
                  <td class="number" key={`${end} bytes`}>{bytes(allocation && Math.round(allocation.bytes_per_call))}</td>,
                  <td class="number" key={`${end} objects`}>{plain(allocation?.objects_per_call)}</td>,
                  <td key={`${end} most`}>{most ? <><code>{shortened(most.function)}</code> <small>{share(most.bytes_share)}</small></> : "–"}</td>,
                ];
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Head({ title }: { title: string }) {
  return (
    <thead>
      <tr>
        <th scope="col" class="number">Bytes</th>
        <th scope="col" class="number">Objects</th>
        <th scope="col">{title}</th>
      </tr>
    </thead>
  );
}

function Branches({ branches, depth }: { branches: Branch[]; depth: number }) {
  return (
    <>
      {branches.map((branch) => [
        <tr key={branch.functions.join()}>
          <Share value={branch.bytes_share} />
          <Share value={branch.objects_share} />
          <th scope="row" class="path" style={{ paddingLeft: `${0.6 + 1.1 * depth}rem` }}><Path functions={branch.functions} /></th>
        </tr>,
        <Branches branches={branch.calls} depth={depth + 1} />,
      ])}
    </>
  );
}

/** Functions in a row; of many, the first and the last two until they are asked for. */
function Path({ functions }: { functions: string[] }) {
  const [whole, setWhole] = useState(false);
  const between = functions.length - 3;
  if (whole || between < 2) return <code>{functions.map(shortened).join(" → ")}</code>;
  return (
    <code>
      {shortened(functions[0]!)} → <button type="button" onClick={() => setWhole(true)} title="Show them">{between} more</button> → {functions.slice(-2).map(shortened).join(" → ")}
    </code>
  );
}

function Share({ value }: { value: number }) {
  return <td class="number share" style={{ "--share": value }}>{share(value)}</td>;
}

const share = (value: number) => `${(100 * value).toFixed(1)} %`;

/** A function without the path of its package. */
const shortened = (name: string) => name.slice(name.lastIndexOf("/") + 1);
