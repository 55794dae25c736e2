// Package analysis turns records into compared groups: cells with intervals,
// ratios between stacks, knees, crossovers, the effect of a limit, the warm-up
// that would have been enough.
//
// It reads records and nothing else, computes through package stats, and holds
// no opinion: what a figure means to somebody who must choose is package
// advice, how it is shown is package report.
//
// The unit of replication is the trial. A cell's figure is the median over its
// valid trials; its interval, where there are at least three of them, is over
// trials too, because samples within a trial are correlated. Trials that are
// invalid are counted and named, never averaged in.
package analysis

import (
	"strings"
	"time"

	"wirelab.dev/internal/record"
)

// Summary is all that is known of a run.
type Summary struct {
	Name     string
	Title    string
	Question string
	Started  time.Time
	Status   record.Status
	Seed     uint64
	Planned  int // trials
	Done     int
	Invalid  int // trials that failed a check
	Failed   int // trials without a measurement
	Command  []string
	Host     map[string]any // the manifest's, as it stands there
	Warnings []string       // of the run, and those that all its trials share

	Cells       []Cell
	Comparisons []Comparison
	Knees       []Knee
	Crossovers  []Crossover
	Limits      []LimitEffect
	WarmUps     []WarmUpNeed
	Contrasts   []Contrast
	Scalings    []Scaling
	Shares      []Shares
	Allocations []Allocation
	Claims      []Claim

	Settings []Setting
	Machine  []MachineLimit
}

// Partial tells whether the run did less than it set out to.
func (s *Summary) Partial() bool { return s.Done < s.Planned }

// IsUsersAPI tells whether the run is of the users API and nothing else.
func (s *Summary) IsUsersAPI() bool {
	for _, c := range s.Cells {
		if name, _, _ := strings.Cut(c.Workload, ":"); name != "users" {
			return false
		}
	}
	return len(s.Cells) > 0
}

// Figure is a number with its interval. The interval is nil where there are
// too few trials for one.
type Figure struct {
	Value    float64
	Interval *Interval
}

// Interval holds the true value at the stated confidence.
type Interval struct {
	Low, High  float64
	Confidence float64
}

// Latencies are in microseconds.
type Latencies struct {
	Mean, P50, P90, P95, P99, P999, P9999, Max Figure
}

// Cell is one point of the matrix, over its repeats. Its figures are of its
// valid trials. Where it has none they are of those that were invalid, so that a
// reader may see what was refused: without intervals, and used for nothing else.
type Cell struct {
	record.Cell
	Key     string
	Trials  int // done
	Valid   int // of them
	Refused int // that the figures are of where none is valid
	Failure string

	Requests   int64 // of the valid trials together
	Errors     int64
	ErrorKinds []record.ErrorCount

	Throughput Figure // a second
	Service    Latencies
	Response   *Latencies // nil where it is the same as Service
	Wait       *Latencies // nil without an in-flight limit
	P99OverP50 Figure     // of Response where there is one
	InFlight   Figure
	WarmUp     Figure // milliseconds that went before the window; 0 where it began cold

	Client, Server End
	Bound          Bound
	Survival       Survival
	Connections    Connections
	Traffic        *Traffic // nil where not measured
	Wire           *Wire    // nil where not measured

	Drain  *Figure       // microseconds until a burst's last answer; nil for other loads
	Course []CoursePoint // of a ramp or a sustained load
	Search *Search       // nil where no rate was searched for

	Curve    []CurvePoint // response time by percentile, valid trials together
	Repeats  []Repeat
	Findings []Finding // what the checks found, worst first
	Warnings []string
}

// IsValid tells whether the cell has a trial that may be used.
func (c *Cell) IsValid() bool { return c.Valid > 0 }

// HasFigures tells whether there is anything to show, valid or not.
func (c *Cell) HasFigures() bool { return c.Valid > 0 || c.Refused > 0 }

// CurvePoint is one point of a percentile curve.
type CurvePoint struct {
	Quantile     float64
	Microseconds float64
}

// Repeat is one trial of a cell, for showing the spread.
type Repeat struct {
	Trial      int
	Valid      bool
	Throughput float64
	P50, P99   float64 // microseconds
	MeanUS     float64
}

// Finding is a check that was not ok, over a cell's trials.
type Finding struct {
	Name   string
	Level  record.Level
	Trials int // how many
	Detail string
}

// Verdict says whether a difference is real.
type Verdict string

// The verdicts of a comparison; faster and slower speak of A.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	Equivalent Verdict = "equivalent"
	Undecided  Verdict = "undecided"
)

// The metrics of comparisons.
const (
	Mean       = "mean"       // response time
	P99        = "p99"        // response time
	Throughput = "throughput" // not of a load on a schedule, which sends what it is told to
)

// Comparison holds two variants against each other at the same point. Ratio is
// A's figure over B's, paired by repeat.
type Comparison struct {
	Part          string
	A, B          string // variants
	Workload      string
	RequestBytes  int
	ResponseBytes int
	Clients       int
	Load          record.Load // without its in-flight limit, which is the variant's
	Metric        string      // what Ratio is of
	Pairs         int         // repeats in which both trials are valid
	Ratio         Figure
	// P is of a ratio this far from 1 where there is no difference, by
	// Student's t over the logarithms with the noise that the run's
	// comparisons of this metric have in common, Holm-adjusted over them.
	// NaN where there are too few trials.
	P       float64
	Verdict Verdict
	Margin  float64 // within which they count as equivalent
}

// The curves that may have a knee.
const (
	ByThroughput = "throughput" // where more clients stop paying
	ByTail       = "tail"       // where P99/P50 begins to grow
)

// Knee is where more concurrency stops paying, for one variant and size. Found
// is false where it is refused, for the Reason.
type Knee struct {
	Part         string
	Variant      string
	Connection   string
	RequestBytes int
	By           string // ByThroughput or ByTail: which curve bends
	Points       int    // concurrencies that were validly measured
	Found        bool
	Clients      Figure
	Reason       string
}

// KneePoints is the fewest concurrencies that show a knee.
const KneePoints = 5

// Crossover is where one variant overtakes another as messages grow. Kind is
// gradual, sharp, or indistinct where the noise covers it.
type Crossover struct {
	Part    string
	A, B    string // A is faster below, B above
	Clients int
	Bytes   Figure
	Kind    string
	// Before and After are A's latency over B's at the sizes around it.
	SizeBefore, SizeAfter int
	Before, After         float64
}

// LimitEffect is what an in-flight limit did (K12), both ways of counting: the
// study's, which leaves the wait for a permit out, and the caller's, which has
// it in.
type LimitEffect struct {
	Part                     string
	Without, With            string // variants
	RequestBytes             int
	Clients, Limit           int
	ThroughputRatio          Figure  // with over without
	MeanServiceRatio         Figure  // the study's figure
	MeanResponseRatio        Figure  // the caller's
	TailWithout              float64 // P99/P50
	TailWithService          float64
	TailWithResponse         float64
	P50WithoutUS, P99Without float64 // microseconds
	P50WithUS, P99WithUS     float64 // response
}

// WarmUpNeed is how much warm-up would have been enough (K20).
type WarmUpNeed struct {
	Part         string
	Variant      string
	RequestBytes int
	Clients      int
	Trials       int
	Settled      int
	Needed       Figure // milliseconds from the first request
	NeededCalls  Figure // requests from the first one, all clients together
	// FirstOver is how many times slower the mean of the first tenth of a
	// second was than the settled part.
	FirstOver Figure
}
