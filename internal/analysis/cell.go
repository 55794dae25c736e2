package analysis

import "wirelab.dev/internal/record"

// Cell is one point of the matrix, over its repeats. Its figures are of its
// valid trials. Where it has none they are of those that were invalid, so that a
// reader may see what was refused: without intervals, and used for nothing else.
type Cell struct {
	record.Cell
	Key string `json:"-" page:"key"` // names the cell within its run

	Requests   int64               `json:"requests"` // measured, failed ones included, of the valid trials together
	Errors     int64               `json:"errors"`
	ErrorKinds []record.ErrorCount `json:"error_kinds"`

	Throughput Figure     `json:"throughput_rps"`    // successful answers a second
	Service    Latencies  `json:"service_us"`        // from the actual send
	Response   *Latencies `json:"response_us"`       // from the intended send; the same as service_us in a closed loop without a limit, where it is nil
	Wait       *Latencies `json:"wait_us,omitempty"` // for a permit of the in-flight limit, part of response_us; absent without a limit
	P99OverP50 Figure     `json:"p99_over_p50"`      // of response_us
	ClientCPU  *Figure    `json:"client_cpu_us"`     // CPU time a request; null where it was not measured
	ServerCPU  *Figure    `json:"server_cpu_us"`     // CPU time a request; null where it was not measured
	InFlight   Figure     `json:"in_flight"`         // calls, mean over the window
	WarmUp     Figure     `json:"warm_up_ms"`        // that went before the window; 0 where it began cold
	Opened     Figure     `json:"connections_opened"`

	Drain  *Figure `json:"drain_us"`         // until a burst's last answer; null for other loads
	Search *Search `json:"search,omitempty"` // absent where no rate was searched for

	Client      End         `json:"client"`
	Server      End         `json:"server"`
	Bound       Bound       `json:"bound" jsonschema:"enum=server-cpu,enum=client-cpu,enum=waiting,enum="` // what kept a closed loop from going faster; empty where neither is plain
	Survival    Survival    `json:"survival"`
	Connections Connections `json:"connections"`
	Traffic     *Traffic    `json:"traffic,omitempty"` // absent where it was not measured
	Wire        *Wire       `json:"wire,omitempty"`    // absent where it was not measured

	Trials  int `json:"trials"`       // done
	Valid   int `json:"valid_trials"` // of them
	Refused int `json:"-"`            // that the figures are of where none is valid

	Repeats []Repeat      `json:"-" page:"repeats"`
	Curve   []CurvePoint  `json:"-" page:"curve"`  // response time by percentile, valid trials together
	Course  []CoursePoint `json:"-" page:"course"` // of a ramp or a sustained load

	Failure  string    `json:"-"`
	Findings []Finding `json:"-"` // what the checks found, worst first
	Warnings []string  `json:"-"`
}

// IsValid tells whether the cell has a trial that may be used.
func (c *Cell) IsValid() bool { return c.Valid > 0 }

// HasFigures tells whether there is anything to show, valid or not.
func (c *Cell) HasFigures() bool { return c.Valid > 0 || c.Refused > 0 }

// Latencies is a distribution of times, in microseconds.
type Latencies struct {
	Mean  Figure `json:"mean"`
	P50   Figure `json:"p50"`
	P90   Figure `json:"p90"`
	P95   Figure `json:"p95"`
	P99   Figure `json:"p99"`
	P999  Figure `json:"p999"`
	P9999 Figure `json:"p9999"`
	Max   Figure `json:"max"`
}

// CurvePoint is one point of a percentile curve: the quantile, and the
// microseconds at it.
type CurvePoint [2]float64

// Repeat is one trial of a cell, for showing the spread.
type Repeat struct {
	Trial      int     `json:"trial"`
	Valid      bool    `json:"valid"`
	Throughput float64 `json:"throughput_rps"`
	MeanUS     float64 `json:"mean_us"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
}

// Finding is a check that was not ok, over a cell's trials.
type Finding struct {
	Name   string
	Level  record.Level
	Trials int // how many
	Detail string
}
