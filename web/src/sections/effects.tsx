// What else the run found: limits, crossovers, and how much warm-up is enough.
// Each is there only where the scenario asked the question.

import { Scroll, Table } from "../export";
import { inOrder, type Run, variantTitle } from "../data";
import { Figure, Figured } from "../figure";
import { bytes, micros, plain, sizes, times } from "../format";
import { Variant } from "../name";

export function Limits({ run: { cells, limits } }: { run: Run }) {
  if (limits.length === 0) return null;
  return (
    <section id="limits">
      <h2>A limit of requests in flight</h2>
      <p class="note">Service time begins after the wait for the limit. Response time, which the caller sees, includes this wait.</p>
      <Scroll name="Limit">
        <table>
          <thead>
            <tr>
              <th scope="col" rowSpan={2}>{variantTitle}</th>
              <th scope="col" rowSpan={2} class="number">Size</th>
              <th scope="col" rowSpan={2} class="number">Clients</th>
              <th scope="col" colSpan={3} class="group">With the limit, divided by without</th>
              <th scope="col" colSpan={3} class="group">P99/P50</th>
              <th scope="col" colSpan={2} class="group">P99</th>
            </tr>
            <tr>
              <th scope="col" class="number">Throughput</th>
              <th scope="col" class="number">Mean, service</th>
              <th scope="col" class="number">Mean, response</th>
              <th scope="col" class="number">Without</th>
              <th scope="col" class="number">Service</th>
              <th scope="col" class="number">Response</th>
              <th scope="col" class="number">Without</th>
              <th scope="col" class="number">Response</th>
            </tr>
          </thead>
          <tbody>
            {limits.map((limit) => (
              <tr key={`${limit.part} ${limit.with} ${limit.request_bytes} ${limit.response_bytes} ${limit.clients}`}>
                <th scope="row"><Variant cells={cells} part={limit.part} name={limit.with} /> <small>over {limit.without}</small></th>
                <td class="number">{sizes(limit.request_bytes, limit.response_bytes)}</td>
                <td class="number">{plain(limit.clients)}</td>
                <Figure value={limit.throughput_ratio} interval={limit.intervals["throughput_ratio"]} show={times} />
                <Figure value={limit.mean_service_ratio} interval={limit.intervals["mean_service_ratio"]} show={times} />
                <Figure value={limit.mean_response_ratio} interval={limit.intervals["mean_response_ratio"]} show={times} />
                <td class="number">{times(limit.tail_without)}</td>
                <td class="number">{times(limit.tail_with_service)}</td>
                <td class="number">{times(limit.tail_with_response)}</td>
                <td class="number">{micros(limit.p99_without_us)}</td>
                <td class="number">{micros(limit.p99_with_us)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

export function Crossovers({ run: { cells, crossovers } }: { run: Run }) {
  if (crossovers.length === 0) return null;
  return (
    <section id="crossovers">
      <h2>Crossovers</h2>
      <p class="note">The message size from which another stack is faster. An indistinct crossover lies within the noise: do not choose by it.</p>
      <Table name="Crossovers" titles={["Faster below", "Faster above", "#Clients", "#At", "Kind", "First divided by second, at the sizes around"]} rows={crossovers.map((crossover) => ({
        key: `${crossover.part} ${crossover.a} ${crossover.b} ${crossover.clients} ${crossover.bytes}`, cells: [
            <Variant cells={cells} part={crossover.part} name={crossover.a} />, <Variant cells={cells} part={crossover.part} name={crossover.b} />,
            plain(crossover.clients),
            <Figured value={crossover.bytes} interval={crossover.intervals["bytes"]} show={(size) => (size === null ? "–" : bytes(size))} />, crossover.kind,
            <>{times(crossover.before)} at {bytes(crossover.size_before)}, {times(crossover.after)} at {bytes(crossover.size_after)}</>,
        ],
      }))} />
    </section>
  );
}

export function WarmUps({ run: { cells, warm_ups: warmUps } }: { run: Run }) {
  if (warmUps.length === 0) return null;
  return (
    <section id="warm-up">
      <h2>How much warm-up is enough</h2>
      <p class="note">The time that each stack needed until its speed was steady, found afterwards in the warm-up and the window together.</p>
      <Table name="Warm-up" tall titles={[variantTitle, "Part", "#Size", "#Clients", "#Needed", "#Requests", "#First 0.1 s, divided by steady state", "#Trials settled"]} rows={inOrder(cells, warmUps, ({ variant }) => variant).map((need) => ({
        key: `${need.part} ${need.variant} ${need.request_bytes} ${need.response_bytes} ${need.clients}`, className: need.settled === 0 ? "invalid" : "", cells: [
            <Variant cells={cells} part={need.part} name={need.variant} />, need.part, sizes(need.request_bytes, need.response_bytes), plain(need.clients),
            <Figured value={need.needed_ms} interval={need.intervals["needed_ms"]} show={(ms) => (ms === null ? "never steady" : micros(ms * 1000))} />,
            <Figured value={need.needed_requests} interval={need.intervals["needed_requests"]} show={(count) => (count === null ? "–" : plain(Math.round(count)))} />,
            <Figured value={need.first_over_settled} interval={need.intervals["first_over_settled"]} show={times} />,
            <span class="valid">{need.settled} of {need.trials}</span>,
        ],
      }))} />
    </section>
  );
}
