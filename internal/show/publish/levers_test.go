package publish

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/show/report"
)

// compare --try --json prints one object: the comparison's, with the tests of the levers.
func TestAComparisonAndItsLeversAreOneObject(t *testing.T) {
	comparison := &report.Run{Summary: &analysis.Summary{Name: "compare"}, Answer: []string{"tcp is fast."}, Directory: "first"}
	tried := &report.Run{Summary: &analysis.Summary{Name: "levers"}, Directory: "second"}
	tried.Summary.Levers = []compare.LeverTest{{Part: "levers", Plain: "tcp"}}
	for _, c := range []struct {
		runs   []*report.Run
		levers int
		after  []string
	}{{nil, 0, nil}, {[]*report.Run{tried}, 1, []string{"second"}}} {
		var out strings.Builder
		if err := (LeverReport{Runs: c.runs}).WriteJSONAfter(&out, comparison); err != nil {
			t.Fatal(err)
		}
		var printed struct {
			Name, Directory string
			Levers          []struct{ Plain string }
			LeverRuns       []string `json:"lever_runs"`
			Answer          []string
		}
		if err := json.Unmarshal([]byte(out.String()), &printed); err != nil { // it refuses two objects
			t.Fatal(err)
		}
		if printed.Name != "compare" || printed.Directory != "first" || len(printed.Levers) != c.levers || !slices.Equal(printed.LeverRuns, c.after) {
			t.Errorf("%d lever runs: found %+v", len(c.runs), printed)
		}
		if printed.Answer[0] != "tcp is fast." || (len(printed.Answer) > 1) != (c.levers > 0) {
			t.Errorf("%d lever runs: the answer is %q", len(c.runs), printed.Answer)
		}
	}
}
