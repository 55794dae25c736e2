package report

import (
	"fmt"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report/gate"
)

// Overlay is what there is to show of several runs that lie over each other, by their names.
func Overlay(names []string, runs []*Run) (*Run, error) {
	summaries := make([]*analysis.Summary, len(runs))
	for i, run := range runs {
		summaries[i] = run.Summary
	}
	over, err := analysis.Overlay(names, summaries)
	if err != nil {
		return nil, err
	}
	both := &Run{Summary: over}
	for i, later := range summaries[1:] {
		d, err := analysis.Differ(summaries[0], later)
		if err != nil {
			continue // a warning says so
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
