// Package analysis computes the results of a run from its records:
//
//  1. Judge checks every trial again by this version's rules.
//  2. Package study reads the manifest and groups the trials of equal cells as points.
//  3. Package matrix turns each point into a Cell: each figure over the trials whose checks do not
//     spoil it, and the percentiles of all their requests, with intervals.
//  4. Package compare compares points, curves finds knees and crossovers, and insight reads the
//     results of probes.
//  5. Summarize collects these results in a Summary. NewDiff compares two summaries, Overlay
//     joins several.
//
// It reads only records. Package advice turns the results into sentences, and package report shows
// them.
//
// Intervals are computed over trials, because samples within a trial are correlated. An interval
// needs three trials. Spoiled figures are counted and named, but no figure of a cell includes them.
package analysis

import (
	"cmp"
	"slices"
	"time"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
	"wirelab.dev/internal/judge/check"
)

// A Summary holds all results of the analysis.
type Summary struct {
	Name     string
	Title    string
	Question string
	Started  time.Time
	Status   record.Status
	Seed     uint64
	Planned  int // planned trials
	Done     int // trials with a record, and passes of probes
	Passes   int // passes of probes, whose times are in no figure
	Invalid  int // trials that failed a check
	Failed   int // trials without a measurement
	Spoiled  int // trials that are invalid only because of other programs
	Command  []string
	Build    *build.Info     // build of wirelab that made the run; nil for runs of older versions
	Host     map[string]any  // facts about the machine, copied from the manifest
	Warnings []string        // warnings of the run, and warnings that all trials share
	Rejudged *RejudgedChecks // trials that this version judges differently; nil if there are none
	Anchor   []record.AnchorReading
	Forecast string        // how small a difference the run could tell; empty if nothing is compared
	Until    *record.Until // nil in a run with a fixed number of repeats
	Overlaid []*Summary    // the runs of an overlay; empty for a single run
	Foreign  []string      // other programs that measured; empty if wirelab did

	PartTitles map[string]string // the titles of the scenario's parts, by name

	Cells []matrix.Cell
	Results
	Profiles []insight.Profile // shown only on the page, because they are large

	Report   scenario.Report       // the scenario's settings for its report
	Declared scenario.Declarations // stacks and workloads

	points []*matrix.Point // points of the cells
}

// Results holds what the analysis found by comparing cells. The tags are the names in --json.
type Results struct {
	Comparisons []compare.Comparison  `json:"comparisons"`
	Powers      []compare.Power       `json:"powers"` // smallest differences that the repeats could find
	Knees       []curves.Knee         `json:"knees"`
	Crossovers  []curves.Crossover    `json:"crossovers"`
	Limits      []compare.LimitEffect `json:"limits"`
	WarmUps     []curves.WarmUpNeed   `json:"warm_ups"`
	Contrasts   []compare.Contrast    `json:"contrasts"`
	Scalings    []curves.Scaling      `json:"scalings"`       // throughput by calls in flight
	Shares      []compare.Shares      `json:"shares"`         // shares of the difference between a part's first and last variant
	Steps       []compare.Step        `json:"steps"`          // sizes at which a call's time jumps, and changes that remove the jump
	Levers      []compare.LeverTest   `json:"levers"`         // changes of a variant, and how they move its calls
	Claims      []compare.Claim       `json:"claims"`         // claims of the scenario, with their outcomes
	Allocations []insight.Allocation  `json:"allocations"`    // heap allocations of an end by function
	Insights    []insight.Insight     `json:"insights"`       // readings of probes
	Settings    []Setting             `json:"settings"`       // settings that differ from a library's default
	Machine     []MachineLimit        `json:"machine_limits"` // limits of the machine that a trial may have reached

	Fleet  *Fleet         `json:"fleet,omitempty"`          // agents that ran the ends; absent if this machine ran them
	Others *OtherPrograms `json:"other_programs,omitempty"` // other programs that used the CPUs; absent if it was not measured
}

// Measured returns the number of trials that were done, without the passes of probes.
func (s *Summary) Measured() int { return s.Done - s.Passes }

// IsPartial reports whether the run did fewer trials than planned.
func (s *Summary) IsPartial() bool { return s.Done < s.Planned }

// IsSweep reports whether all cells of the run measure throughput by calls in flight.
func (s *Summary) IsSweep() bool {
	return len(s.Scalings) > 0 && !slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return !s.Declared.Workload(c.Workload).Sweep })
}

// Summarize analyses the trials of a run. The trials may be in any order, and fewer than planned.
// The categories are for the call stacks of CPU profiles; nil stands for the built-in table.
func Summarize(m *record.Manifest, judged JudgedTrials, categories *insight.Categories) (*Summary, error) {
	records := judged.Records
	s := &Summary{
		Name: m.Name, Title: m.Title, Question: m.Question,
		Started: m.Started, Status: m.Status, Seed: m.Seed,
		Planned: m.Trials, Done: len(records), Command: m.Command, Build: m.Build,
		Warnings: slices.Clone(m.Warnings), Forecast: m.Forecast, Rejudged: judged.Rejudged, Until: m.Until, Anchor: m.Anchor,
	}
	for _, r := range records {
		switch {
		case r.Failure != "":
			s.Failed++
		case !r.Valid() && r.Probe == "":
			s.Invalid++
		}
		if matrix.SpoiledByMachine(r) {
			s.Spoiled++
		}
	}
	run, err := study.ReadRun(m, records, cmp.Or(judged.limits, check.DefaultLimits()))
	if err != nil {
		return nil, err
	}
	asked, points, profiled := run.Study, run.Points, run.Profiled
	s.Passes = len(profiled)
	s.Host, s.Report, s.Declared, s.PartTitles, s.points = asked.Host, asked.Report, asked.Declarations, asked.PartTitles, points
	cells, remarks := matrix.Cells(points, run.Measured, m.Seed)
	s.Cells, s.Warnings = cells, append(s.Warnings, remarks...)
	for i := range s.Cells {
		c := &s.Cells[i]
		c.ForeignClient = c.ForeignClient || asked.HasForeignCaller(c.Variant)
	}
	if s.Foreign = foreignPrograms(run.Measured); len(s.Foreign) > 0 {
		return s, nil // the other program's trials did not alternate, so nothing can be compared
	}
	s.Comparisons, s.Powers = compare.CompareAll(points)
	s.Knees = curves.FindKnees(points, m.Seed)
	s.Crossovers = curves.FindCrossovers(points)
	s.Limits = compare.FindLimitEffects(points)
	s.WarmUps = curves.FindWarmUpNeeds(points)
	s.Contrasts = compare.FindContrasts(asked, points)
	s.Scalings = curves.FindScalings(asked, points, m.Seed)
	s.Shares = compare.FindShares(asked, points)
	s.Allocations = insight.FindAllocations(points, profiled)
	if categories == nil && len(profiled) > 0 { // most runs have no profiles, and the table takes milliseconds
		categories = insight.BuiltInCategories()
	}
	s.Insights = insight.FindInsights(points, s.Comparisons, profiled, categories)
	s.Profiles = insight.FindProfiles(points, profiled, categories)
	s.Claims = compare.JudgeClaims(asked, points, run.Counted)
	s.Levers = compare.FindLevers(asked, points)
	s.Steps = compare.FindSteps(asked, points)
	s.Settings = settings(points)
	s.Machine = machineLimits(points)
	s.Fleet = fleetOf(run.Measured)
	s.Others = otherProgramsOf(run.Measured)
	return s, nil
}

// Fastest returns the cell that is proven faster than every other valid cell of the list, by the
// mean or by the rate that a search found. It returns nil if no cell is proven fastest.
func (s *Summary) Fastest(point []*matrix.Cell) *matrix.Cell {
	valid := slices.DeleteFunc(slices.Clone(point), func(c *matrix.Cell) bool { return !c.IsValid() })
	i := slices.IndexFunc(valid, func(c *matrix.Cell) bool {
		return !slices.ContainsFunc(valid, func(other *matrix.Cell) bool {
			return other != c && !s.isFaster(c, other)
		})
	})
	if i < 0 || len(valid) < 2 {
		return nil
	}
	return valid[i]
}

func (s *Summary) isFaster(c, other *matrix.Cell) bool {
	metric := matrix.Mean
	if !matrix.IsMeaningful(c.Load.Model, metric) {
		metric = matrix.Throughput
	}
	found, _ := s.findComparison(c, other.Variant, metric)
	return found.Verdict == compare.Faster
}

// RatioTo returns a cell's metric divided by another variant's, or nil if nothing compares both.
func (s *Summary) RatioTo(c *matrix.Cell, other, metric string) *matrix.Figure {
	if found, is := s.findComparison(c, other, metric); is {
		return &found.Ratio
	}
	return nil
}

// findComparison returns the comparison of a cell with another variant under the same conditions.
func (s *Summary) findComparison(c *matrix.Cell, other, metric string) (found compare.Comparison, is bool) {
	load := c.Load
	load.InFlightLimit = 0
	for _, found := range s.Comparisons {
		switch {
		case found.Metric != metric || found.Part != c.Part || found.Place != c.Place || found.Load != load:
		case found.A == c.Variant && found.B == other:
			return found, true
		case found.B == c.Variant && found.A == other:
			found.Ratio, found.Verdict = found.Ratio.Inverse(), found.Verdict.Opposite()
			return found, true
		}
	}
	return compare.Comparison{}, false
}
