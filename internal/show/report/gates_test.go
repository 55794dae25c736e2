package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/gate"
)

// gatedRun returns a run with many gates. Its figures do not matter here.
func gatedRun(t *testing.T) *Run {
	t.Helper()
	run := fixtureRun(t)
	figure := matrix.Figure{Value: 25_100, Interval: &matrix.Interval{Low: 19_000, High: 27_900, Confidence: 0.95}}
	key := run.Summary.Cells[0].Key
	run.Gates = []analysis.GateFinding{
		{Gate: "p99>20ms", Cell: key, Outcome: analysis.GateBreached, Unit: analysis.Microseconds, Limit: 20_000, Found: figure, Windows: 3},
		{Gate: "errors>0.1%", Cell: key, Outcome: analysis.GateKept, Unit: analysis.Share, Limit: 0.001, Found: matrix.Figure{Value: 0.000991667}, Windows: 1},
		{Gate: "p99.99>1s", Cell: key, Outcome: analysis.GateOpen, Unit: analysis.Microseconds, Found: matrix.Figure{Value: math.NaN()}, Why: "it was | not measured here"},
		{Gate: "mean>+10%", Cell: key, Outcome: analysis.GateOpen, Unit: analysis.Relative, Limit: 1.1, Found: matrix.Figure{Value: 1.12}, Windows: 3, Passes: true, Why: "few"},
	}
	return run
}

func TestGatesArePrinted(t *testing.T) {
	run := gatedRun(t)
	run.Summary.Cells = run.Summary.Cells[:1]
	var out bytes.Buffer
	if err := gate.WriteGates(&out, run.GateRun()); err != nil {
		t.Fatal(err)
	}
	want := `BREACHED     p99>20ms: 25.1ms (19.0ms to 27.9ms), of 3 windows
kept         errors>0.1%: 0.0992 %, of 1 window
cannot tell  p99.99>1s: it was | not measured here
cannot tell  mean>+10%: +12.0%, of 3 windows; few
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// In a run of several cells a gate names its cell.
func TestGatesNameTheirCell(t *testing.T) {
	run := gatedRun(t)
	if got := run.GateRun().DescribeGate(run.Gates[0]); !strings.HasPrefix(got, "p99>20ms in "+run.Summary.Cells[0].Key+": ") {
		t.Errorf("it says %q", got)
	}
}

func TestLoadAsJUnit(t *testing.T) {
	run := gatedRun(t)
	run.Summary.Cells[0].Valid = 0
	var out bytes.Buffer
	if err := gate.WriteLoadJUnit(&out, run.GateRun()); err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	if err := xml.Unmarshal(out.Bytes(), &suite); err != nil {
		t.Fatal(err)
	}
	invalid := 0
	for i := range run.Summary.Cells {
		if !run.Summary.Cells[i].IsValid() {
			invalid++
		}
	}
	if suite.Tests != len(run.Summary.Cells)+4 || suite.Failures != 1 || suite.Errors != invalid+1 || suite.Skipped != 1 {
		t.Errorf("it has %+v, of %d cells, %d of them invalid:\n%s", suite, len(run.Summary.Cells), invalid, out.String())
	}
}

func TestLoadAsMarkdown(t *testing.T) {
	run := gatedRun(t)
	run.Since = aDiff(t, "mean > +10%")
	run.Summary.Cells[1].Valid = 0
	var out bytes.Buffer
	if err := gate.WriteLoadMarkdown(&out, run.GateRun()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### " + run.Summary.Title,
		"| clients | load | req/s | mean |",
		"| p99>20ms | 0 | 25.1ms (19.0ms to 27.9ms), of 3 windows | **breached** |",
		`| p99.99>1s | 0 | it was \| not measured here | **cannot tell** |`,
		"**Invalid**, ",
		"#### Since before",
		"| compare/tcp/echo/64B/c=1 | mean | 100µs | 125µs | +25.0% (+20.0% to +30.0%) | slower | 5, 5 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	widths := map[int]bool{}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "| ") {
			widths[strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")] = true
		}
	}
	if len(widths) != 3 { // one for each table
		t.Errorf("the lines of tables have these numbers of bars: %v", widths)
	}
}

func TestGatesInJSON(t *testing.T) {
	run := gatedRun(t)
	run.Since = aDiff(t, "mean > +10%")
	var out bytes.Buffer
	if err := WriteJSON(&out, run); err != nil {
		t.Fatal(err)
	}
	var object struct {
		Gates []struct {
			Gate, Outcome, Why string
			Found              *float64
			Intervals          map[string]matrix.Interval
		}
		Since *struct{ Differences []struct{ Verdict string } }
	}
	if err := json.Unmarshal(out.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	if len(object.Gates) != 4 || object.Gates[0].Outcome != "breached" || *object.Gates[0].Found != 25_100 || object.Gates[0].Intervals["found"].High != 27_900 || object.Gates[2].Why == "" {
		t.Errorf("the gates are %+v", object.Gates)
	}
	if object.Since == nil || len(object.Since.Differences) != 4 {
		t.Errorf("since: %+v", object.Since)
	}
}
