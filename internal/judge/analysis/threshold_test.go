package analysis

import (
	"math"
	"strings"
	"testing"
)

// aLoadedCell has a figure of each kind.
func aLoadedCell() *Cell {
	at := func(v float64) Figure {
		return Figure{Value: v, Interval: &Interval{Low: v / 2, High: 2 * v, Confidence: 0.95}}
	}
	return &Cell{
		Key: "load/service:wire=h1/GET //c=2", Valid: 3, Requests: 10_000, Errors: 20,
		Throughput: at(5000), ServerCPU: new(at(40)), P99OverP50: at(4),
		Service: Latencies{Mean: at(100), P50: at(90), P99: at(400), P9999: Figure{Value: math.NaN()}, Max: at(9000)},
	}
}

func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		text string
		want GateOutcome
	}{
		{"p99>400us", Kept}, // a figure on the limit is right
		{"p99>399us", Breached},
		{" P99 > 0.399ms ", Breached},
		{"mean<100us", Kept},
		{"mean<101us", Breached},
		{"p99.99>1h", Unjudged}, // no figure
		{"p9999>1h", Unjudged},
		{"max>9ms", Kept},
		{"rps<5000", Kept},
		{"throughput<5001", Breached},
		{"req/s>4999.5", Breached},
		{"errors>20", Kept},
		{"errors>19", Breached},
		{"errors>0.2%", Kept},
		{"errors>0.19%", Breached},
		{"ok<99.8%", Kept},
		{"ok<99.9%", Breached},
		{"server>39us", Breached},
		{"client>1h", Unjudged}, // it was not measured
		{"cpu>1h", Unjudged},
		{"p99/p50>3", Breached},
		{"kept<1", Unjudged},
	} {
		threshold, err := ParseThreshold(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := threshold.Judge(aLoadedCell()); got.Outcome != c.want || (got.Why != "") != (c.want == Unjudged) {
			t.Errorf("%s: %s, because %q: want %s", c.text, got.Outcome, got.Why, c.want)
		}
	}
}

// What is not valid is never a pass, nor a breach.
func TestAnInvalidCellIsNotJudged(t *testing.T) {
	c := aLoadedCell()
	c.Valid = 0
	for _, text := range []string{"p99>1ns", "p99>1h", "errors>0", "rps<1"} {
		threshold, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := threshold.Judge(c).Outcome; got != Unjudged {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestWrongThresholds(t *testing.T) {
	for text, want := range map[string]string{
		"p98>1ms":      `"p98" in "p98>1ms" is no figure: want one of mean, p50,`,
		"p99>20":       "want a time with its unit, as in p99>20ms",
		"p99=20ms":     "want FIGURE>LIMIT or FIGURE<LIMIT",
		"p99>=20ms":    "want FIGURE>LIMIT or FIGURE<LIMIT",
		"p99>-20ms":    "want a time with its unit",
		"rps<10ms":     "want requests a second, as in rps<1000",
		"rps<NaN":      "want requests a second",
		"rps<Inf":      "want requests a second",
		"errors>x":     "want a number of requests or a share of them, as in errors>10 or errors>0.1%",
		"ok<3":         "want a share, as in ok<99.9%",
		"p99/p50>10ms": "want a number, as in p99/p50>10",
		"":             "is no condition",
	} {
		if _, err := ParseThreshold(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	kept, err := ParseThreshold("kept<100")
	if err != nil || kept.CheckLoad("search") != nil || kept.CheckLoad("closed") == nil {
		t.Errorf("kept: %v, of a search %v, of a closed loop %v", err, kept.CheckLoad("search"), kept.CheckLoad("closed"))
	}
}

// A percentage of what is no share is a change.
func TestChangesAreToldFromFigures(t *testing.T) {
	for text, want := range map[string]bool{
		"p99>+10%": true, "p99 > 10%": true, "throughput<-5%": true, "rps<-5%": true, "errors>+10%": true,
		"p99>10ms": false, "errors>10%": false, "ok<99%": false, "rps<1000": false, "nonsense": false,
	} {
		if got := IsChange(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if gate, err := ParseGate("rps<-5%"); err != nil || gate.Metric != Throughput {
		t.Errorf("rps<-5%%: %+v, %v", gate, err)
	}
}

func FuzzThreshold(f *testing.F) {
	for _, text := range []string{"p99>20ms", "errors>0.1%", "rps<1000", "p99/p50>3", "ok<99%", "mean > 1e300h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		threshold, err := ParseThreshold(text)
		if err != nil {
			return
		}
		if !(threshold.Limit >= 0) || math.IsInf(threshold.Limit, 0) {
			t.Errorf("%q has the limit %v", text, threshold.Limit)
		}
		again, err := ParseThreshold(threshold.Text)
		if err != nil || again.Limit != threshold.Limit || again.Above != threshold.Above || again.Unit != threshold.Unit {
			t.Errorf("%q: %+v, and again %+v, %v", text, threshold, again, err)
		}
	})
}
