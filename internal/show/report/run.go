package report

import (
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report/gate"
)

// Run is all that there is to show of a run.
type Run struct {
	Summary *analysis.Summary
	// Records are the trials, in the order of the plan. Only the formats with
	// a line a trial need them.
	Records []*record.Record
	// Answer is what package advice has for somebody who reads a few lines.
	Answer []string
	// Advice is what package advice says of the summary, most important first.
	Advice []string
	// Directory is where the run lies; empty where it is not on disk.
	Directory string
	// Gates are what was asked of the run, cell by cell.
	Gates []analysis.GateFinding
	// Since is how it differs from an earlier run; nil where it was held against none.
	Since *gate.DiffReport
}

// Outcome returns what the gates of the run came to, for those who write that alone.
func (r *Run) Outcome() *gate.Run {
	return &gate.Run{Summary: r.Summary, Answer: r.Answer, Gates: r.Gates, Since: r.Since}
}
