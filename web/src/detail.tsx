// What the figures of one cell rest on: its findings, its trials, its intervals.

import { Grid } from "./export";
import type { Cell, Latencies } from "./data";
import { micros, perSecond, plain } from "./format";
import { cellMetrics, latencyMetrics, type Metric } from "./metrics";
import { FleetClients } from "./sections/machines";
import { counted, loadText, validText } from "./words";

export function CellDetail({ cell }: { cell: Cell }) {
  return (
    <div class="detail">
      <p class="note">
        {cell.workload}, {loadText(cell.load)}{cell.network?.link && `, over a link with ${cell.network.link}`}{cell.agents && `, from ${counted(cell.agents, "agent")} of a fleet`}. Connections: {cell.connection}{cell.valid && `, ${plain(cell.connections_opened)} opened`}. {cell.valid && `${counted(cell.requests, "request")} in ${counted(cell.valid_trials, "valid trial")}, ${plain(cell.in_flight)} in flight on average, after ${micros(cell.warm_up_ms! * 1000)} of warm-up.`}
      </p>
      {cell.warnings.length > 0 && (
        <ul class="findings">{cell.warnings.map((text) => <li key={text} class={/^(([a-z, ]+ )?refused,|no measurement)/.test(text) ? "bad" : ""}>{text}</li>)}</ul>
      )}
      {cell.error_kinds.length > 0 && (
        <ul class="findings">
          {cell.error_kinds.map((kind) => <li key={`${kind.class} ${kind.code}`}>{counted(kind.count, "request")} failed with {kind.class && `${kind.class}, `}{kind.code}, the first: <q>{kind.example}</q></li>)}
        </ul>
      )}
      <div class="pair" tabIndex={0} role="group" aria-label="Figures and trials">
        {cell.valid && <Intervals cell={cell} />}
        {cell.repeats.length > 0 && <Repeats cell={cell} />}
      </div>
      <FleetClients cell={cell} />
    </div>
  );
}

function Intervals({ cell }: { cell: Cell }) {
  const { wait_us: wait, response_apart: apart } = cell;
  const service = latencyMetrics("service_us");
  const row = (metric: Metric) => {
    const interval = metric.interval(cell);
    return (
      <>
        <th scope="row">{metric.label}</th>
        <td class="number">{metric.show(metric.value(cell))}</td>
        <td class="faint">{interval ? `${metric.show(interval.low)} to ${metric.show(interval.high)}` : metric.value(cell) !== null && `no interval: ${validText(cell)}`}</td>
      </>
    );
  };
  return (
    <table>
      <caption>Its figures, with their intervals over the trials</caption>
      {apart && (
        <thead>
          <tr>
            <td />
            <th scope="col" class="number" colSpan={2}>Response time</th>
            <th scope="col" class="number">Service</th>
            {wait && <th scope="col" class="number">Wait</th>}
          </tr>
        </thead>
      )}
      <tbody>
        {cellMetrics.map((metric) => <tr key={metric.id}>{row(metric)}</tr>)}
        {latencyMetrics("response_us").map((metric, place) => (
          <tr key={metric.id}>
            {row(metric)}
            {apart && <td class="number">{micros(service[place]!.value(cell))}</td>}
            {wait && <td class="number">{micros(wait[metric.id as Exclude<keyof Latencies, "stalls">])}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Repeats({ cell }: { cell: Cell }) {
  return (
    <Grid caption="Its trials" titles={["Repeat", "#Throughput", "#Mean", "#P50", "#P99", "Valid"]} rows={cell.repeats.map((repeat) => ({
      key: repeat.trial, className: repeat.valid ? "" : "faint",
      cells: [repeat.trial, perSecond(repeat.throughput_rps), micros(repeat.mean_us), micros(repeat.p50_us), micros(repeat.p99_us), repeat.valid ? "yes" : "no"],
    }))} />
  );
}
