package publish

import (
	"fmt"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/gate"
)

// TwoRuns names two runs, the earlier first.
type TwoRuns struct {
	Directories [2]string
	// Only holds texts that cell names must contain: in the earlier run, and in the later run.
	Only [2]string
}

// Diff compares two runs. It judges the later run's gates with find, and returns that run.
func (r Reader) Diff(of TwoRuns, find func(*analysis.Summary, *analysis.Diff) []analysis.GateFinding) (*report.Run, error) {
	var runs [2]*report.Run
	for i, directory := range of.Directories {
		var err error
		if runs[i], err = r.Read(directory); err != nil {
			return nil, err
		}
		if err := runs[i].Summary.KeepOnly(of.Only[i]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", [2]string{"--before-cell", "--after-cell"}[i], directory, err)
		}
	}
	d, err := analysis.NewDiff(runs[0].Summary, runs[1].Summary)
	if err != nil {
		return nil, err
	}
	d.Before, d.After = of.Directories[0], of.Directories[1]
	runs[1].Gates = find(runs[1].Summary, d)
	runs[1].Since = gate.NewDiffReport(d, runs[1].Gates)
	return runs[1], nil
}
