// Package report shows the results of the analysis: as an HTML page in a file, as a JSON object,
// and in the formats of other tools. Its folders contain:
//
//	format   numbers, times and paragraphs as texts
//	table    cells as tables and paragraphs for a terminal
//	gate     the outcomes of gates, and what changed since an earlier run
//	export   records and profiles in the formats of other tools
//
// A report is written in three steps:
//
//  1. A [Run] comes in: an [analysis.Summary], the sentences that package advice
//     wrote about it, and the records, for formats that show every trial.
//  2. Columns, notes and the JSON object are chosen from the figures and their tags.
//  3. Text goes out to the given writer. Each format is one file and one line of
//     [Formats].
//
// It chooses units and computes no figure. A cell without a valid trial is empty in every format.
// The package does not know how figures were measured, and does not say what is good or bad.
package report

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report/gate"
)

// A Run holds all data that can be shown about a run.
type Run struct {
	Summary *analysis.Summary
	// Records are the trials in the order of the plan.
	Records []*record.Record
	// Answer is the short answer of package advice.
	Answer []string
	// Advice holds all sentences of package advice, most important first.
	Advice []string
	// Directory is the run's directory; empty if it is not on disk.
	Directory string
	// Gates holds the outcomes of gates, cell by cell.
	Gates []analysis.GateFinding
	// Since holds the differences from an earlier run; nil if there is none.
	Since *gate.DiffReport
}

// GateRun returns the data of the run for package gate.
func (r *Run) GateRun() *gate.Run {
	return &gate.Run{Summary: r.Summary, Answer: r.Answer, Gates: r.Gates, Since: r.Since}
}

// Overlay combines several runs for one report. names holds a name per run.
func Overlay(names []string, runs []*Run) (*Run, error) {
	summaries := lists.Map(runs, func(run *Run) *analysis.Summary { return run.Summary })
	over, err := analysis.Overlay(names, summaries)
	if err != nil {
		return nil, err
	}
	both := &Run{Summary: over}
	for i, later := range summaries[1:] {
		d, err := analysis.NewDiff(summaries[0], later)
		if err != nil {
			both.Answer = append(both.Answer, fmt.Sprintf("%s and %s cannot be compared: %v.", names[0], names[i+1], err))
			continue
		}
		for _, line := range gate.NewDiffReport(d, nil).Answer {
			if len(runs) > 2 {
				line = fmt.Sprintf("%s: %s", names[i+1], line)
			}
			both.Answer = append(both.Answer, line)
		}
	}
	return both, nil
}

// A JudgedCheck is a check over a cell's trials, with the worst level found.
type JudgedCheck struct {
	Name   string       `json:"name"`
	Level  record.Level `json:"level"`
	Trials int          `json:"trials"` // trials with this level
	Detail string       `json:"detail"` // detail of the first trial with this level
}

// levelsWorstFirst lists the levels of a check, worst first.
var levelsWorstFirst = []record.Level{record.Invalid, record.Warning, record.Unknown, record.OK}

func worstChecks(cell record.Cell, records []*record.Record) []JudgedCheck {
	var all []JudgedCheck
	for _, r := range records {
		if r.Cell != cell {
			continue
		}
		for _, check := range r.Checks {
			v := lists.FindOrAdd(&all, JudgedCheck{Name: check.Name, Level: record.OK}, func(v JudgedCheck) bool { return v.Name == check.Name })
			switch {
			case v.Trials == 0 || slices.Index(levelsWorstFirst, check.Level) < slices.Index(levelsWorstFirst, v.Level):
				v.Level, v.Trials, v.Detail = check.Level, 1, check.Detail
			case check.Level == v.Level:
				v.Trials++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b JudgedCheck) int {
		return cmp.Compare(slices.Index(levelsWorstFirst, a.Level), slices.Index(levelsWorstFirst, b.Level))
	})
	return all
}
