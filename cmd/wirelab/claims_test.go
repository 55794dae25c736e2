package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/studies"
)

// TestStudiesCanAnswerTheirClaims looks for every figure that a claim of a study needs in
// the cells that the study measures, with its yardsticks.
func TestStudiesCanAnswerTheirClaims(t *testing.T) {
	rows, contradictions := map[byte]int{}, map[byte]int{}
	for _, name := range plan.StudyNames() {
		s, err := scenarioLibrary.FindScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		s = s.With(func(scenario.Variant) bool { return true })
		measured := map[claim.Cell]bool{}
		for _, trial := range s.Plan() {
			c := trial.Cell
			measured[claim.Cell{Part: c.Part, Variant: c.Variant.String(), Bytes: int(c.Size.Request), Clients: c.Clients}] = true
		}
		for i := range s.Claims {
			c := &s.Claims[i]
			if c.Row != "" {
				rows[c.Row[0]]++
				if c.But != "" {
					contradictions[c.Row[0]]++
				}
			}
			needs, err := s.Needs(c)
			if err != nil {
				t.Errorf("%s, %q: %v", name, c.Says, err)
			}
			for _, need := range needs {
				if !measured[need.Cell] {
					t.Errorf("%s, %q needs %s of %v, which is not measured", name, c.Says, need.Figure, need.Cell)
				}
			}
			if len(needs) == 0 {
				t.Errorf("%s, %q needs no figure", name, c.Says)
			}
		}
	}
	for row, want := range map[byte]int{'K': 10, 'F': 5, 'C': 6, 'U': 7, 'Q': 8} {
		if rows[row] < want || contradictions[row] == 0 {
			t.Errorf("%d claims and %d contradictions of study %c, want %d and one", rows[row], contradictions[row], row, want)
		}
	}
}

// TestPublishedFiguresAreCarried knows how many there are.
func TestPublishedFiguresAreCarried(t *testing.T) {
	files, err := studies.FS.ReadDir("published")
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, file := range files {
		text, err := studies.FS.ReadFile("published/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := claim.ReadPublishedTable(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		all += bytes.Count(text, []byte("\n")) - 1 // without the titles
	}
	const carried = 607
	if all != carried {
		t.Errorf("%d figures, want %d", all, carried)
	}
	if _, err := scenarioLibrary.Vocabulary().Published("nowhere"); err == nil || !strings.Contains(fmt.Sprint(err), "neither a built-in study") {
		t.Errorf("of nowhere: %v", err)
	}
}
