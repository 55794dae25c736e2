package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/run/lab"
)

// verdict decides the exit code: a run that measured nothing has failed; a cell
// without a valid trial makes the measurement invalid.
func verdict(s *analysis.Summary, patience lab.Patience) error {
	if len(s.Cells) == 0 {
		return nil // nothing was to be measured: all was profiled
	}
	if !slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return c.HasFigures() }) {
		return fmt.Errorf("nothing was measured: %s", whyWithout(s.Cells[0]))
	}
	var wrong, disturbed []string // cells without a valid trial
	for _, c := range s.Cells {
		switch {
		case c.IsValid():
		case c.Spoiled > 0:
			disturbed = append(disturbed, c.Key)
		default:
			wrong = append(wrong, c.Key)
		}
	}
	var reasons []string
	if len(wrong) > 0 {
		reasons = append(reasons, fmt.Sprintf("no valid trial of %s (see the table for the reasons)", shortList(wrong)))
	}
	if len(disturbed) > 0 {
		reason := fmt.Sprintf("no valid trial of %s, because other programs disturbed them: measure when the machine is quieter", shortList(disturbed))
		if !s.Cells[0].Kind().Alone { // a service is not asked again
			reason += ", or let wirelab wait longer for that with --patience " + patience.More()
		}
		reasons = append(reasons, reason)
	}
	if len(reasons) == 0 {
		return nil
	}
	return exitError{exitInvalid, errors.New("the measurement is invalid: " + strings.Join(reasons, "; "))}
}

// whyWithout says why a cell has no figures.
func whyWithout(c matrix.Cell) string {
	if c.Failure != "" || len(c.Findings) == 0 {
		return cmp.Or(c.Failure, "no trial of "+c.Key+" has ended")
	}
	return fmt.Sprintf("%s: %s, %s", c.Key, c.Findings[0].Name, c.Findings[0].Detail) // the worst is first
}

// shortList names the first of some things, and how many more there are.
func shortList(names []string) string {
	const shown = 3
	text := strings.Join(names[:min(len(names), shown)], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
