package main

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A cell that only other programs spoiled is named with what helps.
func TestTheVerdictNamesWhatStayedSpoiled(t *testing.T) {
	cell := func(part string, valid, spoiled int) matrix.Cell {
		return matrix.Cell{Cell: record.Cell{Part: part}, Key: part, Trials: 1, Valid: valid, Spoiled: spoiled, Refused: 1}
	}
	for _, c := range []struct {
		cells     []matrix.Cell
		says, not string
	}{
		{[]matrix.Cell{cell("a", 1, 0)}, "", ""},
		{[]matrix.Cell{cell("a", 1, 1)}, "", ""}, // another trial of it is valid
		{[]matrix.Cell{cell("a", 0, 0)}, "the measurement is invalid, for the reasons above", "trial"},
		{[]matrix.Cell{cell("a", 0, 1)}, "the measurement is invalid: other programs disturbed it: measure when the machine is quieter", "trial"},
		{[]matrix.Cell{cell("a", 1, 0), cell("b", 0, 0)}, "no valid trial of b (see the table for the reasons)", "quieter"},
		{[]matrix.Cell{cell("a", 0, 0), cell("b", 0, 1)}, "no valid trial of a (see the table for the reasons); no valid trial of b, because other programs disturbed them: measure when the machine is quieter", ""},
		{[]matrix.Cell{cell("a", 0, 1), cell("b", 0, 1), cell("c", 0, 1), cell("d", 0, 1), cell("e", 0, 1)}, "no valid trial of a, b, c and 2 more, because", "see the table"},
	} {
		err := validityError(&analysis.Summary{Cells: c.cells})
		if c.says == "" {
			if err != nil {
				t.Errorf("got %v, want none", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || c.not != "" && strings.Contains(err.Error(), c.not) {
			t.Errorf("got %v, want it to say %q and not %q", err, c.says, c.not)
		}
	}
}
