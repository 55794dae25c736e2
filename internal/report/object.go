package report

import (
	"encoding/json"
	"fmt"
	"io"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
)

// ObjectVersion is the form of the JSON object. It grows when a name changes
// its meaning or goes away, not when one is added.
const ObjectVersion = 1

// Object is what --json prints: a run in a form that programs may rely on. It
// is documented in docs/json.md, and docs/schema/compare.schema.json is made
// from it.
type Object struct {
	Version     int                `json:"version"`                                                                 // of this form
	Name        string             `json:"name"`                                                                    // of the scenario
	Status      record.Status      `json:"status" jsonschema:"enum=running,enum=done,enum=interrupted,enum=failed"` // how far the run has come
	Partial     bool               `json:"partial"`                                                                 // fewer trials were done than planned
	Seed        uint64             `json:"seed"`                                                                    // what the order of the trials was shuffled from
	Trials      TrialCounts        `json:"trials"`
	Cells       []CellObject       `json:"cells"`
	Comparisons []ComparisonObject `json:"comparisons"`
	Knees       []KneeObject       `json:"knees"`
	Crossovers  []CrossoverObject  `json:"crossovers"`
	Limits      []LimitObject      `json:"limits"`
	WarmUps     []WarmUpObject     `json:"warm_ups"`
	Contrasts   []ContrastObject   `json:"contrasts"`
	Scalings    []ScalingObject    `json:"scalings"`       // how throughput follows the calls in flight
	Claims      []ClaimObject      `json:"claims"`         // of the scenario, and whether they hold here
	Allocations []AllocationObject `json:"allocations"`    // where an end's heap allocations come from
	Settings    []SettingObject    `json:"settings"`       // that are not a library's default
	Machine     []MachineObject    `json:"machine_limits"` // those of the machine that a trial could have run into
	Advice      []string           `json:"advice"`         // in words, most important first
	Warnings    []string           `json:"warnings"`       // of the whole run
	Directory   string             `json:"directory"`      // where the run lies
}

// TrialCounts says how many trials there were.
type TrialCounts struct {
	Planned int `json:"planned"`
	Done    int `json:"done"`
	Invalid int `json:"invalid"` // failed a check of validity
	Failed  int `json:"failed"`  // gave no measurement
}

// CellObject is one point of the matrix, over its valid trials. Times are in
// microseconds. A figure is null where there is no valid trial.
type CellObject struct {
	Part          string      `json:"part"`           // of the scenario
	Stack         string      `json:"stack"`          // the name alone
	Variant       string      `json:"variant"`        // the stack with its options
	Workload      string      `json:"workload"`       // the service that was called
	RequestBytes  int         `json:"request_bytes"`  // of payload
	ResponseBytes int         `json:"response_bytes"` // of payload
	Clients       int         `json:"clients"`        // concurrent ones
	Connection    string      `json:"connection"`     // shared, per-worker, pool or pool:N
	Load          record.Load `json:"load"`

	Requests   int64               `json:"requests"` // measured, failed ones included
	Errors     int64               `json:"errors"`
	ErrorKinds []record.ErrorCount `json:"error_kinds"`

	ThroughputRPS Number         `json:"throughput_rps"`    // successful answers a second
	Service       LatencyObject  `json:"service_us"`        // from the actual send
	Response      LatencyObject  `json:"response_us"`       // from the intended send; the same as service_us in a closed loop without a limit
	Wait          *LatencyObject `json:"wait_us,omitempty"` // for a permit of the in-flight limit, part of response_us; absent without a limit
	P99OverP50    Number         `json:"p99_over_p50"`      // of response_us
	ClientCPU     Number         `json:"client_cpu_us"`     // CPU time a request; null where it was not measured
	ServerCPU     Number         `json:"server_cpu_us"`     // CPU time a request; null where it was not measured
	InFlight      Number         `json:"in_flight"`         // calls, mean over the window
	WarmUpMS      Number         `json:"warm_up_ms"`        // that went before the window
	Opened        Number         `json:"connections_opened"`

	Drain  Number        `json:"drain_us"`         // until a burst's last answer; null for other loads
	Search *SearchObject `json:"search,omitempty"` // absent where no rate was searched for

	Client      EndObject         `json:"client"`
	Server      EndObject         `json:"server"`
	Bound       analysis.Bound    `json:"bound" jsonschema:"enum=server-cpu,enum=client-cpu,enum=waiting,enum="` // what kept a closed loop from going faster; empty where neither is plain
	Survival    SurvivalObject    `json:"survival"`
	Connections ConnectionsObject `json:"connections"`
	Traffic     *TrafficObject    `json:"traffic,omitempty"` // absent where it was not measured
	Wire        *WireObject       `json:"wire,omitempty"`    // absent where it was not measured

	Valid       bool             `json:"valid"`        // at least one trial is valid
	Trials      int              `json:"trials"`       // done
	ValidTrials int              `json:"valid_trials"` // of them
	Warnings    []string         `json:"warnings"`     // what the checks found, worst first, then what else is worth knowing
	Intervals   IntervalsByField `json:"intervals"`
}

// LatencyObject is a distribution of times, in microseconds.
type LatencyObject struct {
	Mean  Number `json:"mean"`
	P50   Number `json:"p50"`
	P90   Number `json:"p90"`
	P95   Number `json:"p95"`
	P99   Number `json:"p99"`
	P999  Number `json:"p999"`
	P9999 Number `json:"p9999"`
	Max   Number `json:"max"`
}

// IntervalsByField holds the interval of each figure that has one, by the path
// of its field, as in "throughput_rps" or "service_us.p99".
type IntervalsByField map[string]IntervalObject

// IntervalObject holds the true value at the stated confidence.
type IntervalObject struct {
	Low        Number `json:"low"`
	High       Number `json:"high"`
	Confidence Number `json:"confidence"` // 0.95 for 95 %
}

// ComparisonObject holds two variants against each other at one point.
type ComparisonObject struct {
	Part          string           `json:"part"`
	A             string           `json:"a"` // a variant
	B             string           `json:"b"` // a variant
	Workload      string           `json:"workload"`
	RequestBytes  int              `json:"request_bytes"`
	ResponseBytes int              `json:"response_bytes"`
	Clients       int              `json:"clients"`
	Load          record.Load      `json:"load"`                                                                        // without an in-flight limit, which is the variant's
	Metric        string           `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput"`                      // what the ratio is of: mean, p99 or throughput
	Pairs         int              `json:"pairs"`                                                                       // repeats in which both trials are valid
	Ratio         Number           `json:"ratio"`                                                                       // A's over B's, paired by repeat
	P             Number           `json:"p"`                                                                           // of a ratio this far from 1 where there is no difference, Holm-adjusted; null with too few trials
	Verdict       analysis.Verdict `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=equivalent,enum=undecided"` // faster, slower, equivalent or undecided; the first two speak of A
	Margin        Number           `json:"margin"`                                                                      // within it they count as equivalent; 0.05 for 5 %
	Intervals     IntervalsByField `json:"intervals"`
}

// KneeObject is where more concurrency stops paying.
type KneeObject struct {
	Part         string           `json:"part"`
	Variant      string           `json:"variant"`
	Connection   string           `json:"connection"`
	RequestBytes int              `json:"request_bytes"`
	By           string           `json:"by" jsonschema:"enum=throughput,enum=tail"` // which curve bends: throughput or tail
	Found        bool             `json:"found"`                                     // false: refused, see reason
	Clients      Number           `json:"clients"`                                   // null where not found
	Reason       string           `json:"reason"`
	Intervals    IntervalsByField `json:"intervals"`
}

// CrossoverObject is where one variant overtakes another as messages grow.
type CrossoverObject struct {
	Part       string           `json:"part"`
	A          string           `json:"a"` // faster below
	B          string           `json:"b"` // faster above
	Clients    int              `json:"clients"`
	Bytes      Number           `json:"bytes"`
	Kind       string           `json:"kind" jsonschema:"enum=gradual,enum=sharp,enum=indistinct"` // gradual, sharp or indistinct
	SizeBefore int              `json:"size_before"`                                               // the measured size below
	SizeAfter  int              `json:"size_after"`                                                // the measured size above
	Before     Number           `json:"before"`                                                    // A's latency over B's at size_before
	After      Number           `json:"after"`                                                     // A's latency over B's at size_after
	Intervals  IntervalsByField `json:"intervals"`
}

// LimitObject is what an in-flight limit did, counted both ways: service leaves
// the wait for a permit out, response has it in.
type LimitObject struct {
	Part              string           `json:"part"`
	Without           string           `json:"without"` // a variant
	With              string           `json:"with"`    // a variant
	RequestBytes      int              `json:"request_bytes"`
	Clients           int              `json:"clients"`
	Limit             int              `json:"limit"`
	ThroughputRatio   Number           `json:"throughput_ratio"`    // with over without
	MeanServiceRatio  Number           `json:"mean_service_ratio"`  // with over without
	MeanResponseRatio Number           `json:"mean_response_ratio"` // with over without
	TailWithout       Number           `json:"tail_without"`        // P99 over P50
	TailWithService   Number           `json:"tail_with_service"`   // P99 over P50
	TailWithResponse  Number           `json:"tail_with_response"`  // P99 over P50
	P50Without        Number           `json:"p50_without_us"`
	P99Without        Number           `json:"p99_without_us"`
	P50With           Number           `json:"p50_with_us"` // of response time
	P99With           Number           `json:"p99_with_us"` // of response time
	Intervals         IntervalsByField `json:"intervals"`
}

// WarmUpObject is how much warm-up would have been enough.
type WarmUpObject struct {
	Part           string           `json:"part"`
	Variant        string           `json:"variant"`
	RequestBytes   int              `json:"request_bytes"`
	Clients        int              `json:"clients"`
	Trials         int              `json:"trials"`
	Settled        int              `json:"settled"`            // of them
	NeededMS       Number           `json:"needed_ms"`          // from the first request
	NeededRequests Number           `json:"needed_requests"`    // of all clients together
	FirstOver      Number           `json:"first_over_settled"` // mean of the first tenth of a second over the settled one
	Intervals      IntervalsByField `json:"intervals"`
}

// WriteJSON prints the run as one [Object], indented.
func WriteJSON(w io.Writer, run *Run) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // "a → b" and "<" are read by people too
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(NewObject(run)); err != nil {
		return fmt.Errorf("report: encoding JSON: %w", err)
	}
	return nil
}

// Number is a figure as JSON has it: null where it is not a finite number.
type Number float64

// MarshalJSON never fails.
func (n Number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}
