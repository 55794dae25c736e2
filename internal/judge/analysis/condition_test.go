package analysis

import (
	"math"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// aLoadedCell has a figure of each kind. The intervals reach 10 % to each side.
func aLoadedCell() *matrix.Cell {
	at := func(v float64) matrix.Figure {
		return matrix.Figure{Value: v, Interval: &matrix.Interval{Low: 0.9 * v, High: 1.1 * v, Confidence: matrix.Confidence}}
	}
	return &matrix.Cell{
		Key: "load/service:wire=h1/GET / c=2", Valid: 3, Requests: 10_000, Errors: 20,
		Streams:    &matrix.Streams{Streams: record.Streams{Held: 10, Received: 996, Reopened: 2, Sequence: &record.Sequence{Missing: 4}}},
		Throughput: at(5000), ServerCPU: new(at(40)), P99OverP50: at(4),
		Service: matrix.Latencies{Mean: at(100), P50: matrix.Figure{Value: 90}, P99: at(400), P9999: matrix.Figure{Value: math.NaN()}, Max: matrix.Figure{Value: 9000}},
	}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct {
		text string
		want GateOutcome
	}{
		{"p99>441us", GateKept},
		{"p99>439us", GateOpen}, // the interval contains the limit
		{"p99>360us", GateOpen},
		{"p99>359us", GateBreached},
		{" P99 > 0.359ms ", GateBreached},
		{"mean<90us", GateKept},
		{"mean<110us", GateOpen},
		{"mean<111us", GateBreached},
		{"p50>90us", GateKept}, // one window has no interval: the figure decides
		{"p50>89us", GateBreached},
		{"p99.99>1h", GateOpen}, // no figure
		{"p9999>1h", GateOpen},
		{"max>9ms", GateKept},
		{"max>8.9ms", GateBreached},
		{"rps<4500", GateKept},
		{"throughput<5501", GateBreached},
		{"req/s>4499.5", GateBreached},
		{"errors>20", GateKept}, // counts are exact
		{"errors>19", GateBreached},
		{"errors>0.2%", GateKept},
		{"errors>0.19%", GateBreached},
		{"ok<99.8%", GateKept},
		{"ok<99.9%", GateBreached},
		{"lost>4", GateKept}, // of held streams
		{"lost>3", GateBreached},
		{"lost>0.4%", GateKept},
		{"lost>0.39%", GateBreached},
		{"reopened>2", GateKept},
		{"reopened>19%", GateBreached},
		{"server>35us", GateBreached},
		{"client>1h", GateOpen}, // it was not measured
		{"cpu>1h", GateOpen},
		{"p99/p50>3", GateBreached},
		{"kept<1", GateOpen},
	} {
		condition, err := ParseCondition(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := condition.Judge(aLoadedCell()); got.Outcome != c.want || (got.Why != "") != (c.want == GateOpen) {
			t.Errorf("%s: %s, because %q: want %s", c.text, got.Outcome, got.Why, c.want)
		}
	}
	both := aLoadedCell()
	both.ClientCPU = both.ServerCPU
	for text, want := range map[string]GateOutcome{"cpu>88us": GateKept, "cpu>87us": GateOpen, "cpu>71us": GateBreached} {
		judgedAs(t, text, both, want)
	}
}

// What is not valid is never a pass, nor a breach.
func TestAnInvalidCellIsNotJudged(t *testing.T) {
	c := aLoadedCell()
	c.Valid = 0
	for text, want := range map[string]GateOutcome{
		"p99>1ns": GateOpen, "p99>1h": GateOpen, "rps<1": GateOpen, "errors>0": GateOpen, "ok<100%": GateOpen,
	} {
		judgedAs(t, text, c, want)
	}
	c.Refused = 1 // failed calls are counted in refused trials, too
	for text, want := range map[string]GateOutcome{
		"p99>1ns": GateOpen, "rps<1": GateOpen, "errors>0": GateBreached, "ok<100%": GateBreached, "errors>99%": GateKept,
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

// A change is judged by its whole interval, and the reason says what to do.
func TestChanges(t *testing.T) {
	ratio := func(low, value, high float64, verdict compare.Verdict) Difference {
		return Difference{Metric: matrix.P99, BeforeTrials: 3, AfterTrials: 3, Ratio: matrix.Figure{Value: value, Interval: &matrix.Interval{Low: low, High: high}}, Verdict: verdict}
	}
	spread := func(d Difference, spread float64) Difference { d.spread = spread; return d }
	for _, c := range []struct {
		gate string
		of   Difference
		want GateOutcome
		why  string
	}{
		{"p99 > +10%", ratio(1.12, 1.2, 1.3, compare.Slower), GateBreached, ""},
		{"p99>10%", ratio(1.05, 1.2, 1.3, compare.Slower), GateOpen, "the interval contains the limit: measure more repeats, for example --repeat 5"},
		{"p99>10%", ratio(1.05, 1.1001, 1.3, compare.Slower), GateOpen, "so close to the limit"},
		{"p99>10%", spread(ratio(0.97, 1.05, 1.14, compare.Undecided), 0.04), GateOpen, "for example --repeat 27"},
		{"p99>10%", spread(ratio(0.97, 1.05, 1.14, compare.Undecided), 0.05), GateOpen, "the machine itself may have changed by as much"},
		{"p99 > +10%", ratio(1.12, 1.2, 1.3, compare.Undecided), GateOpen, "this change may be chance"},
		{"p99 > +10%", ratio(1.02, 1.05, 1.09, compare.Slower), GateKept, ""},
		{"p99 > +10%", ratio(0.97, 1.02, 1.09, compare.Undecided), GateKept, ""},
		{"p99 > +10%", ratio(0.97, 1.05, 1.21, compare.Undecided), GateOpen, "the interval contains the limit"},
		{"p99 > -10%", ratio(0.95, 1, 1.05, compare.Equivalent), GateBreached, ""}, // no change is a breach
		{"p99 > -10%", ratio(0.7, 0.8, 0.89, compare.Faster), GateKept, ""},
		{"p99 > +10%", Difference{BeforeTrials: 3, AfterTrials: 3, Ratio: matrix.Figure{Value: 2}, Verdict: compare.Undecided}, GateOpen, "a change needs 3 valid windows"},
		{"p99 > +10%", Difference{BeforeTrials: 3, AfterTrials: 2, Ratio: matrix.Figure{Value: 1}, Verdict: compare.Undecided}, GateOpen, "the earlier run has 3, the later run 2"},
		{"throughput < -5%", ratio(0.8, 0.9, 0.94, compare.Slower), GateBreached, ""},
		{"throughput < -5%", ratio(0.8, 0.9, 0.97, compare.Slower), GateOpen, "the interval contains the limit"},
		{"throughput < -5%", ratio(1.2, 1.3, 1.4, compare.Faster), GateKept, ""},
	} {
		gate, err := ParseCondition(c.gate)
		if err != nil {
			t.Fatal(err)
		}
		if got := gate.JudgeChange(c.of); got.Outcome != c.want || (got.Why == "") != (c.why == "") || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s of %+v is %s, because %q; want %s, %q", c.gate, c.of.Ratio, got.Outcome, got.Why, c.want, c.why)
		}
	}
}

// One outcome decides for a run: breached before cannot tell before kept.
func TestTheWorstOutcome(t *testing.T) {
	kept, open, passes, breached := GateFinding{Outcome: GateKept}, GateFinding{Outcome: GateOpen}, GateFinding{Outcome: GateOpen, Passes: true}, GateFinding{Outcome: GateBreached}
	for _, c := range []struct {
		of   []GateFinding
		want GateOutcome
	}{
		{nil, GateKept},
		{[]GateFinding{kept, passes}, GateKept},
		{[]GateFinding{open, kept}, GateOpen},
		{[]GateFinding{breached, open}, GateBreached},
		{[]GateFinding{open, breached}, GateBreached},
	} {
		if got := WorstOutcome(c.of); got != c.want {
			t.Errorf("%+v: %s, want %s", c.of, got, c.want)
		}
	}
}

// Conditions on failed calls come first.
func TestFailedCallsAreJudgedFirst(t *testing.T) {
	var conditions []Condition
	for _, text := range []string{"p99>1h", "errors>0"} {
		c, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		conditions = append(conditions, c)
	}
	got := JudgeConditions(conditions, &Summary{Cells: []matrix.Cell{*aLoadedCell()}}, nil)
	if len(got) != 2 || got[0].Gate != "errors>0" || got[0].Outcome != GateBreached || got[1].Outcome != GateKept {
		t.Errorf("found %+v", got)
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

// Without numbers, nobody knows what was lost, and without held streams there is none to open again.
func TestFiguresOfStreamsMayBeUnknown(t *testing.T) {
	cell := aLoadedCell()
	cell.Streams.Sequence = nil
	judge := func(text, says string) {
		condition, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if f := condition.Judge(cell); f.Outcome != GateOpen || f.Why != says {
			t.Errorf("%s: %s, %q; want open, %q", text, f.Outcome, f.Why, says)
		}
	}
	judge("lost>0", "messages have no numbers: name them with --sequence")
	judge("lost>1%", "messages have no numbers: name them with --sequence")
	cell.Streams = nil
	judge("reopened>0", "this cell has no measurement of the figure")
}
