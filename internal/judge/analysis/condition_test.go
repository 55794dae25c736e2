package analysis

import (
	"math"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis/matrix"

	"wirelab.dev/internal/judge/analysis/compare"
)

// aLoadedCell has a figure of each kind.
func aLoadedCell() *matrix.Cell {
	at := func(v float64) matrix.Figure {
		return matrix.Figure{Value: v, Interval: &matrix.Interval{Low: v / 2, High: 2 * v, Confidence: matrix.Confidence}}
	}
	return &matrix.Cell{
		Key: "load/service:wire=h1/GET //c=2", Valid: 3, Requests: 10_000, Errors: 20,
		Throughput: at(5000), ServerCPU: new(at(40)), P99OverP50: at(4),
		Service: matrix.Latencies{Mean: at(100), P50: at(90), P99: at(400), P9999: matrix.Figure{Value: math.NaN()}, Max: at(9000)},
	}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct {
		text string
		want GateOutcome
	}{
		{"p99>400us", GateKept}, // a figure on the limit is right
		{"p99>399us", GateBreached},
		{" P99 > 0.399ms ", GateBreached},
		{"mean<100us", GateKept},
		{"mean<101us", GateBreached},
		{"p99.99>1h", GateUnjudged}, // no figure
		{"p9999>1h", GateUnjudged},
		{"max>9ms", GateKept},
		{"rps<5000", GateKept},
		{"throughput<5001", GateBreached},
		{"req/s>4999.5", GateBreached},
		{"errors>20", GateKept},
		{"errors>19", GateBreached},
		{"errors>0.2%", GateKept},
		{"errors>0.19%", GateBreached},
		{"ok<99.8%", GateKept},
		{"ok<99.9%", GateBreached},
		{"server>39us", GateBreached},
		{"client>1h", GateUnjudged}, // it was not measured
		{"cpu>1h", GateUnjudged},
		{"p99/p50>3", GateBreached},
		{"kept<1", GateUnjudged},
	} {
		condition, err := ParseCondition(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := condition.Judge(aLoadedCell()); got.Outcome != c.want || (got.Why != "") != (c.want == GateUnjudged) {
			t.Errorf("%s: %s, because %q: want %s", c.text, got.Outcome, got.Why, c.want)
		}
	}
}

// What is not valid is never a pass, nor a breach.
func TestAnInvalidCellIsNotJudged(t *testing.T) {
	c := aLoadedCell()
	c.Valid = 0
	for text, want := range map[string]GateOutcome{
		"p99>1ns": GateUnjudged, "p99>1h": GateUnjudged, "rps<1": GateUnjudged, "errors>0": GateUnjudged, "ok<100%": GateUnjudged,
	} {
		judgedAs(t, text, c, want)
	}
	c.Refused = 1 // failed calls are counted in refused trials, too
	for text, want := range map[string]GateOutcome{
		"p99>1ns": GateUnjudged, "rps<1": GateUnjudged, "errors>0": GateBreached, "ok<100%": GateBreached, "errors>99%": GateKept,
	} {
		judgedAs(t, text, c, want)
	}
}

func judgedAs(t *testing.T, text string, c *matrix.Cell, want GateOutcome) {
	t.Helper()
	condition, err := ParseCondition(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := condition.Judge(c).Outcome; got != want {
		t.Errorf("%s: %s, want %s", text, got, want)
	}
}

func TestWrongConditions(t *testing.T) {
	for text, want := range map[string]string{
		"p98>1ms":      `unknown figure "p98" in the condition "p98>1ms": use one of mean, p50,`,
		"p99>20":       "write a time with a unit, as in p99>20ms",
		"p99=20ms":     "write FIGURE>LIMIT or FIGURE<LIMIT",
		"p99>=20ms":    "want FIGURE>LIMIT or FIGURE<LIMIT",
		"p99>-20ms":    "write a time with a unit",
		"rps<10ms":     "write requests per second, as in rps<1000",
		"rps<NaN":      "write requests per second",
		"rps<Inf":      "write requests per second",
		"errors>x":     "write a number of requests or a share of them, as in errors>10 or errors>0.1%",
		"ok<3":         "write a share, as in ok<99.9%",
		"p99/p50>10ms": "write a number, as in p99/p50>10",
		"":             "is no condition",
		"p98 > +10%":   `unknown figure "p98" in the condition "p98 > +10%": use one of mean, p50,`,
		"p95 > +10%":   `the condition "p95 > +10%" needs an earlier run, but runs are not compared by "p95": use one of mean, p99, throughput, cpu`,
		"errors>+10%":  `the condition "errors>+10%" needs an earlier run`,
		"p99 > fast":   "write a time with a unit",
		"p99 > +10":    "write a time with a unit",
		"mean < -100%": "write a finite change above -100%",
		"mean > +Inf%": "impossible change",
	} {
		if _, err := ParseCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	kept, err := ParseCondition("kept<100")
	if err != nil || kept.CheckLoad("search") != nil || kept.CheckLoad("closed") == nil {
		t.Errorf("kept: %v, of a search %v, of a closed loop %v", err, kept.CheckLoad("search"), kept.CheckLoad("closed"))
	}
}

// A percentage of what is no share is a change.
func TestChangesAreToldFromFigures(t *testing.T) {
	for text, want := range map[string]bool{
		"p99>+10%": true, "p99 > 10%": true, "throughput<-5%": true, "rps<-5%": true, "mean > 0.5 %": true,
		"p99>10ms": false, "p99 > 10 ms": false, "errors>10%": false, "ok<99%": false, "rps<1000": false,
	} {
		condition, err := ParseCondition(text)
		if err != nil || condition.IsChange() != want {
			t.Errorf("%s: %v, %v", text, condition.IsChange(), err)
		}
	}
	for text, want := range map[string]string{"rps<-5%": matrix.Throughput, "req/s<-5%": matrix.Throughput, "P99>+1%": matrix.P99} {
		if condition, err := ParseCondition(text); err != nil || condition.of.metric() != want {
			t.Errorf("%s is about %q, %v", text, condition.of.metric(), err)
		}
	}
}

// In runs of many cells what cannot be judged of a change passes; of a figure it never does.
func TestUnjudgedChangesPass(t *testing.T) {
	got := PassUnjudgedChanges([]GateFinding{
		{Unit: Relative, Outcome: GateUnjudged, within: true},
		{Unit: Relative, Outcome: GateUnjudged},
		{Unit: Relative, Outcome: GateBreached},
		{Unit: Microseconds, Outcome: GateUnjudged},
	})
	for i, want := range []GateOutcome{GateKept, GateOpen, GateBreached, GateUnjudged} {
		if got[i].Outcome != want {
			t.Errorf("finding %d is %s, want %s", i, got[i].Outcome, want)
		}
	}
}

func TestChanges(t *testing.T) {
	ratio := func(low, value, high float64, verdict compare.Verdict) Difference {
		return Difference{Metric: matrix.P99, BeforeTrials: 3, AfterTrials: 3, Ratio: matrix.Figure{Value: value, Interval: &matrix.Interval{Low: low, High: high}}, Verdict: verdict}
	}
	for _, c := range []struct {
		gate string
		of   Difference
		want GateOutcome
	}{
		{"p99 > +10%", ratio(1.12, 1.2, 1.3, compare.Slower), GateBreached},
		{"p99>10%", ratio(1.05, 1.2, 1.3, compare.Slower), GateOpen},
		{"p99 > +10%", ratio(1.12, 1.2, 1.3, compare.Undecided), GateOpen},
		{"p99 > +10%", ratio(1.02, 1.05, 1.09, compare.Slower), GateKept},
		{"p99 > +10%", Difference{BeforeTrials: 3, AfterTrials: 3, Ratio: matrix.Figure{Value: 2}, Verdict: compare.Undecided}, GateOpen},
		{"p99 > +10%", Difference{BeforeTrials: 3, AfterTrials: 2, Ratio: matrix.Figure{Value: 2}, Verdict: compare.Undecided}, GateUnjudged},
		{"throughput < -5%", ratio(0.8, 0.9, 0.94, compare.Slower), GateBreached},
		{"throughput < -5%", ratio(0.8, 0.9, 0.97, compare.Slower), GateOpen},
		{"throughput < -5%", ratio(1.2, 1.3, 1.4, compare.Faster), GateKept},
	} {
		gate, err := ParseCondition(c.gate)
		if err != nil {
			t.Fatal(err)
		}
		if got := gate.JudgeChange(c.of).Outcome; got != c.want {
			t.Errorf("%s of %+v is %s, want %s", c.gate, c.of.Ratio, got, c.want)
		}
	}
}

func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		"p99>20ms", "errors>0.1%", "rps<1000", "p99/p50>3", "ok<99%", "mean > 1e300h",
		"p99 > +10%", "throughput<-5%", "mean > 0.5 %", "cpu > 1e9%", "p99 >", "p99=5ms",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		condition, err := ParseCondition(text)
		if err != nil {
			return
		}
		if !(condition.Limit >= 0) || math.IsInf(condition.Limit, 0) {
			t.Errorf("%q has the limit %v", text, condition.Limit)
		}
		again, err := ParseCondition(condition.Text)
		if err != nil || again != condition {
			t.Errorf("%q: %+v, and again %+v, %v", text, condition, again, err)
		}
	})
}
