package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
)

func aReplication() *gate.Replication {
	r := &gate.Replication{Quick: true, Host: "a machine"}
	r.Add(gate.StudyOutcome{Name: "s", Title: "A study", Run: "s", Trials: 9, Valid: 8, Claims: []compare.Claim{
		{Row: "K4", Says: "one | two", ClaimedRatio: new(1.9), Ratio: new(fixtureFigure(2)), Outcome: compare.Compatible, Pairs: 3},
		{
			Row: "K5", Says: "where <they> cross", But: "its table says otherwise", AtLeast: new(1024.0), AtMost: new(2048.0), Ratio: new(fixtureFigure(4000)), Outcome: compare.Refuted, Pairs: 3,
		},
		{Row: "K6", Says: "open", Ratio: &matrix.Figure{Value: 1.1}, Outcome: compare.Underpowered, Pairs: 3, NeededPairs: new(20)},
		{Row: "K7", Says: "unknown", Outcome: compare.Unmeasured, Reason: "no counters"},
	}})
	r.Add(gate.StudyOutcome{Name: "t", Title: "Another", Run: "t", Note: "interrupted before this study", Claims: []compare.Claim{{Row: "F1", Says: "never", Outcome: compare.Unmeasured, Reason: "interrupted before this study"}}})
	r.Finish(90 * time.Second)
	return r
}

func TestReplicationInWords(t *testing.T) {
	var out bytes.Buffer
	if err := gate.WriteReplication(&out, aReplication(), format.Terminal{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"✓  K4   compatible ", " 1.9×        3  one | two\n", " 1024 to 2048        3  where <they> cross\n", "?  K6   underpowered ", "–  K7   not measured ", "  unknown\n   no counters\n",
		"\n5 claims: 1 compatible, 1 refuted, 1 underpowered, 2 not measured.\n", "\nDo: without --quick, ", "\nTrust: 8 of 9 trials valid;", "\nPartial: t: interrupted before this study\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, out.String())
		}
	}
	places := map[int]bool{} // of the last column
	for _, says := range []string{"one | two", "where <they> cross", "open", "unknown"} {
		before, _, _ := strings.Cut(out.String(), says)
		places[len([]rune(before[strings.LastIndexByte(before, '\n')+1:]))] = true
	}
	if len(places) != 1 {
		t.Errorf("the last column begins at %v in\n%s", places, out.String())
	}
}

func TestReplicationAsFiles(t *testing.T) {
	r := aReplication()
	var page, markdown, junit, object bytes.Buffer
	for _, err := range []error{gate.WriteReplicationHTML(&page, r), gate.WriteReplicationMarkdown(&markdown, r), gate.WriteReplicationJUnit(&junit, r), WriteIndented(&object, r)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		in   string
		text string
	}{
		{page.String(), `where &lt;they&gt; cross<small class="interval">But its table says otherwise</small>`},
		{page.String(), `<a href="s/report.html">`},
		{page.String(), "<h1>What studies claim, and what was found here</h1>"},
		{markdown.String(), "# What studies claim, and what was found here\n\nMeasured on 1 January 0001, in 1m30s, quick. a machine.\n\n- 5 claims: "},
		{markdown.String(), "\n## A study\n"},
		{markdown.String(), `| ✓ | one \| two | K4 | 1.9× |`},
		{markdown.String(), "| refuted; but its table says otherwise |"},
		{junit.String(), `<testsuite name="wirelab replicate" tests="5" failures="1" errors="0" skipped="3">`},
	} {
		if !strings.Contains(want.in, want.text) {
			t.Errorf("%q is not in\n%s", want.text, want.in)
		}
	}
	var read struct {
		Total struct {
			Claims int
			Open   int `json:"underpowered"`
		}
		Studies []struct{ Claims []struct{ Outcome string } }
	}
	if err := json.Unmarshal(object.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if read.Total.Claims != 5 || read.Total.Open != 1 || read.Studies[0].Claims[1].Outcome != "refuted" {
		t.Errorf("%+v", read)
	}
}
