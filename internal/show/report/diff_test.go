package report

import (
	"bytes"
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
)

// aDiff returns a diff with a cell that became slower, and a cell that may have become slower.
func aDiff(t *testing.T, gates ...string) *gate.DiffReport {
	t.Helper()
	ratio := func(low, value, high float64) matrix.Figure {
		return matrix.Figure{Value: value, Interval: &matrix.Interval{Low: low, High: high, Confidence: 0.95}}
	}
	d := &analysis.Diff{
		Noun:   "cell",
		Before: "before", After: "after", OnlyInBefore: []string{"compare/rest/echo/64B/c=1"},
		Differences: []analysis.Difference{
			{Cell: "compare/tcp/echo/64B/c=1", Metric: matrix.Mean, Before: 100, After: 125, BeforeTrials: 5, AfterTrials: 5, Ratio: ratio(1.2, 1.25, 1.3), Verdict: compare.Slower},
			{Cell: "compare/tcp/echo/64B/c=1", Metric: matrix.Throughput, Before: 10_000, After: 8_000, BeforeTrials: 5, AfterTrials: 5, Ratio: ratio(0.77, 0.8, 0.83), Verdict: compare.Slower},
			{Cell: "compare/grpc/echo/64B/c=1", Metric: matrix.Mean, Before: 100, After: 115, BeforeTrials: 5, AfterTrials: 2, Ratio: matrix.Figure{Value: 1.15}, P: math.NaN(), Verdict: compare.Undecided},
			{Cell: "compare/grpc/echo/64B/c=1", Metric: matrix.CPU, Before: 10, After: 10, BeforeTrials: 5, AfterTrials: 2, Ratio: matrix.Figure{Value: 1}, P: math.NaN(), Verdict: compare.Undecided},
		},
	}
	var all []analysis.GateFinding
	for _, text := range gates {
		condition, err := analysis.ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range d.Differences {
			if strings.HasPrefix(text, one.Metric) {
				all = append(all, condition.JudgeChange(one))
			}
		}
	}
	return gate.NewDiffReport(d, all)
}

func TestDiffIsPrinted(t *testing.T) {
	var out bytes.Buffer
	r := aDiff(t, "mean > +10%", "throughput < -50%")
	if err := gate.WriteDiff(&out, r, format.Terminal{}); err != nil {
		t.Fatal(err)
	}
	want := `cell                       figure      before    after    change                     verdict    trials
compare/tcp/echo/64B/c=1   mean         100µs    125µs    +25.0% (+20.0% to +30.0%)  slower     5, 5
compare/tcp/echo/64B/c=1   throughput  10,000/s  8,000/s  -20.0% (-23.0% to -17.0%)  slower     5, 5
compare/grpc/echo/64B/c=1  mean         100µs    115µs    +15.0%                     undecided  5, 2

Mean, of 2 cells: slower in 1, undecided in 1.
CPU time, of 1 cell: undecided in 1.
BREACHED     mean > +10% in 1 cell: compare/tcp/echo/64B/c=1
kept         throughput < -50%
Not compared: 1 cell that only one run has.
Trust: the runs did not alternate.
`
	if strings.Join(strings.Fields(out.String()), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
	if other := aDiff(t, "mean > +30%"); len(r.Gates[0].Breached) != 1 || len(other.Gates[0].Breached) != 0 {
		t.Error("the gate at +10 % must be breached, that at +30 % must not")
	}
}

func TestDiffAsJUnit(t *testing.T) {
	var out bytes.Buffer
	if err := gate.WriteDiffJUnit(&out, aDiff(t, "mean > +10%")); err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(out.Bytes(), &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Tests != 2 || suite.Failures != 1 || suite.Errors != 1 || len(suite.Cases) != 2 || suite.Cases[0].Failure == nil ||
		suite.Cases[0].Failure.Message != "mean +25.0% (+20.0% to +30.0%): from 100µs to 125µs" {
		t.Errorf("it reads as %+v", suite)
	}
}

func TestDiffAsMarkdownAndJSON(t *testing.T) {
	var markdown, object bytes.Buffer
	r := aDiff(t, "mean > +10%")
	if err := gate.WriteDiffMarkdown(&markdown, r); err != nil {
		t.Fatal(err)
	}
	if err := WriteIndented(&object, r); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		markdown.String(): "| compare/tcp/echo/64B/c=1 | mean | 100µs | 125µs | +25.0% (+20.0% to +30.0%) | slower | 5, 5 |\n",
		object.String():   `"breached": [`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}
