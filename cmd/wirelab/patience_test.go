package main

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/run/lab"
)

func TestPatienceFlag(t *testing.T) {
	for text, want := range map[string]struct {
		lab.Patience
		more string
	}{
		"0":       {lab.Patience{}, "25%+10s"},
		"0s":      {lab.Patience{}, "25%+10s"},
		"2m":      {lab.Patience{Time: 2 * time.Minute}, "4m0s"},
		"25%":     {lab.Patience{Share: 0.25}, "40%"},
		"25%+10s": {lab.UsualPatience, "40%+20s"},
		// What is more than much can be read too.
		"99.96875%": {lab.Patience{Share: 0.9996875}, "99.984373%"},
		"2540400h":  {lab.Patience{Time: 2_540_400 * time.Hour}, "2562047h47m16.854775806s"},
	} {
		var p patienceFlag
		if err := p.Set(text); err != nil || p.Patience != want.Patience || p.more() != want.more {
			t.Errorf("%s: %+v, more is %s, %v; want %+v, %s", text, p.Patience, p.more(), err, want.Patience, want.more)
		}
		var again patienceFlag
		if err := again.Set(p.String()); err != nil || again != p {
			t.Errorf("%s is written %s, and read back as %+v, %v", text, p.String(), again, err)
		}
		if err := again.Set(want.more); err != nil {
			t.Errorf("what %s advises cannot be read: %v", text, err)
		}
	}
	for _, text := range []string{"", "soon", "10", "-1s", "-5%", "100%", "NaN%", "%", "5%5s", "5%+", "5%+-1s", "1s+5%"} {
		var p patienceFlag
		if err := p.Set(text); err == nil || p != (patienceFlag{}) {
			t.Errorf("%q was read as %+v", text, p)
		}
	}
}

// A cell that only other programs spoiled is named with what gives it more time.
func TestTheVerdictNamesWhatStayedSpoiled(t *testing.T) {
	cell := func(part string, valid, spoiled int) analysis.Cell {
		return analysis.Cell{Cell: record.Cell{Part: part}, Key: part, Trials: 1, Valid: valid, Spoiled: spoiled, Refused: 1}
	}
	patience := patienceFlag{lab.UsualPatience}
	for _, c := range []struct {
		cells     []analysis.Cell
		says, not string
	}{
		{[]analysis.Cell{cell("a", 1, 0)}, "", ""},
		{[]analysis.Cell{cell("a", 1, 1)}, "", ""}, // another trial of it is valid
		{[]analysis.Cell{cell("a", 1, 0), cell("b", 0, 0)}, "no valid trial of b (see the table for the reasons)", "--patience"},
		{[]analysis.Cell{cell("a", 0, 0), cell("b", 0, 1)}, "no valid trial of a (see the table for the reasons); no valid trial of b, because other programs disturbed them: measure when the machine is quieter, or let wirelab wait longer for that with --patience 40%+20s", ""},
		{[]analysis.Cell{cell("a", 0, 1), cell("b", 0, 1), cell("c", 0, 1), cell("d", 0, 1), cell("e", 0, 1)}, "no valid trial of a, b, c and 2 more, because", "see the table"},
	} {
		err := verdict(&analysis.Summary{Cells: c.cells}, patience)
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
