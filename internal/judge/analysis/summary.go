// Package analysis computes what a run found from its records:
//
//  1. Judge checks every trial again by this version's rules.
//  2. Package study reads the manifest and puts the trials of equal cells together, as
//     points.
//  3. Package matrix turns each point into a Cell: the median of each figure over the
//     valid trials, and the percentiles of all their requests, with intervals.
//  4. Packages compare, curves and insight find what points say beside each other, along
//     an axis of the matrix, and through probes.
//  5. Summarize puts all of that into a Summary; Differ holds two of them against each
//     other, and Overlay lays several over one another.
//
// It reads records and nothing else, and computes through package stats. Package
// advice says what the figures mean for a choice, package report shows them.
//
// The unit of replication is the trial. A cell's interval, where there are at least
// three valid trials, is over trials, because samples within a trial are correlated.
// Trials that are invalid are counted and named, never averaged in.
package analysis

import (
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Summary holds everything that the analysis found.
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
	Again    Again
	Command  []string
	Host     map[string]any // the manifest's, as it stands there
	Warnings []string       // of the run, and those that all its trials share
	Rejudged *Rejudged      // where this version judges otherwise; nil: nowhere
	Until    *record.Until  // nil in a run of the number of repeats
	Overlaid []*Summary     // the runs that lie over each other here; none in a run of its own
	Foreign  []string       // the programs whose figures these are; none if wirelab measured

	Cells []matrix.Cell
	Results
	Profiles []insight.Profile // only the page shows them: --json would be mostly stacks

	Report   scenario.Report       // what the scenario asks of its report
	Declared scenario.Declarations // what stacks and workloads say of themselves

	points []*matrix.Point // which the cells are of
}

// Results holds what follows from the cells, as --json has it.
type Results struct {
	Comparisons []compare.Comparison  `json:"comparisons"`
	Powers      []compare.Power       `json:"powers"` // what the repeats could tell
	Knees       []curves.Knee         `json:"knees"`
	Crossovers  []curves.Crossover    `json:"crossovers"`
	Limits      []compare.LimitEffect `json:"limits"`
	WarmUps     []curves.WarmUpNeed   `json:"warm_ups"`
	Contrasts   []compare.Contrast    `json:"contrasts"`
	Scalings    []curves.Scaling      `json:"scalings"`       // how throughput follows the calls in flight
	Shares      []compare.Shares      `json:"shares"`         // how the difference between a part's first and last variant comes about
	Steps       []compare.Step        `json:"steps"`          // where a call's time jumps with its size, and what takes the jump away
	Claims      []compare.Claim       `json:"claims"`         // of the scenario, and whether they hold here
	Allocations []insight.Allocation  `json:"allocations"`    // where an end's heap allocations come from
	Insights    []insight.Insight     `json:"insights"`       // what probes saw
	Settings    []Setting             `json:"settings"`       // that are not a library's default
	Machine     []MachineLimit        `json:"machine_limits"` // those of the machine that a trial could have run into

	Fleet *Fleet `json:"fleet,omitempty"` // the agents that ran the ends; absent if this machine did
}

// Partial reports whether the run did less than it set out to.
func (s *Summary) Partial() bool { return s.Done < s.Planned }

// IsSweep reports whether the run asks how throughput follows the calls in
// flight, and nothing else.
func (s *Summary) IsSweep() bool {
	if len(s.Scalings) == 0 {
		return false
	}
	for _, c := range s.Cells {
		if !s.Declared.Workload(c.Workload).Sweep {
			return false
		}
	}
	return true
}
