package advice

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func ratioOf(value float64) *matrix.Figure {
	return &matrix.Figure{Value: value, Interval: &matrix.Interval{Low: value * 0.95, High: value * 1.05, Confidence: 0.95}}
}

func leverOf(name string, verdict compare.Verdict, value float64) compare.LeverEffect {
	e := compare.LeverEffect{Name: name, Variant: "grpc:" + name, Write: "line of " + name, Costs: "the price of " + name, Verdict: verdict, Ratio: ratioOf(value)}
	if verdict == compare.Equivalent {
		e.Margin = 0.05
	}
	return e
}

func leversOf(all ...compare.LeverEffect) *analysis.Summary {
	return &analysis.Summary{Results: analysis.Results{Levers: []compare.LeverTest{{
		Part: "levers", Place: record.Place{Workload: "echo", Clients: 4}, Metric: "mean", Plain: "grpc:gogc=10", Levers: all,
		NotTried: []scenario.LeftOut{{Name: "smallobject=64KiB", Why: "it builds a runtime"}},
	}}}}
}

func TestLeversEndWithTheLineToWrite(t *testing.T) {
	best := leverOf("gogc=400", compare.Faster, 0.6)
	best.Share = ratioOf(0.8)
	s := leversOf(best, leverOf("conns=4", compare.Faster, 0.8), leverOf("codec=vt2", compare.Equivalent, 1), leverOf("tls=on", compare.Slower, 1.5))
	s.Levers[0].Against = "grpc"
	got := Levers(nil, s)
	want := []string{
		"Lever: gogc=400: calls take 0.6× (0.57 to 0.63) the time, which removes 80 % (76 % to 84 %) of the difference to grpc.",
		"Also: conns=4 0.8× (0.76 to 0.84)",
		"Slower with: tls=on 1.5× (1.42 to 1.58)",
		"No effect above 5 %: codec=vt2",
		"Not tried: smallobject=64KiB",
		"Do: write this into your program; the price: the price of gogc=400:",
		words.CodeIndent + "line of gogc=400",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The cause comes before the levers. Passes of probes are no trials.
func TestLeversBeginWithTheCause(t *testing.T) {
	s := leversOf(leverOf("gogc=400", compare.Faster, 0.6))
	s.Cells, s.Done, s.Passes, s.Invalid = make([]matrix.Cell, 1), 5, 2, 1
	mean := 50.0
	e := &insight.Explanation{
		Of: &insight.Insight{Variant: "grpc:gogc=10"}, Measured: insight.Measured{B: &mean},
		Causes: []insight.Cause{{Kind: insight.ByCollector, Time: 40}},
	}
	got := Levers(e, s)
	if len(got) != 6 || !strings.HasPrefix(got[0], "Why: ") || !strings.Contains(got[0], "A call over grpc:gogc=10 takes 50 µs") || !strings.HasPrefix(got[1], "Lever: gogc=400: ") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	s.Levers[0].Metric = matrix.P99
	e.Of.Life = &insight.Life{}
	e.Of.Tail = &insight.Tail{Calls: 1000, SlowCalls: 10, Slow: 900, Median: 45, Stages: []insight.TailStage{{Name: "handler"}}}
	if got := Levers(e, s); !strings.HasPrefix(got[0], "Why: The slowest 1 % of calls over grpc:gogc=10 ") || !strings.HasPrefix(got[1], "Lever: gogc=400: the P99 becomes ") {
		t.Errorf("of the P99:\n%s", strings.Join(got, "\n"))
	}
	if !slices.Contains(got, "Trust: 2 of 3 trials valid.") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestNoLeverSaysWhatCouldBeHidden(t *testing.T) {
	got := Levers(nil, leversOf(leverOf("gogc=400", compare.Equivalent, 1), leverOf("conns=4", compare.Undecided, 0.9)))
	if want := "No lever moves it: none of 2 levers is proven to make calls over grpc:gogc=10 faster; an effect of up to 15 % could still be found with more time (--budget)."; got[0] != want {
		t.Errorf("got %q, want %q", got[0], want)
	}
	if last := got[len(got)-1]; last != "Not tried: smallobject=64KiB" || strings.Contains(strings.Join(got, "\n"), "Do:") {
		t.Errorf("without a lever there is nothing to write: %q", got)
	}
	none := leverOf("gogc=400", compare.Undecided, 1)
	none.Ratio = nil
	if got := Levers(nil, leversOf(none)); got[0] != "No lever is proven: too few valid trials of 1 lever; CPU time can be compared on a busy machine: --of cpu." {
		t.Errorf("%q", got[0])
	}
}

// Two levers together are recommended only if the second adds to the first.
func TestTwoLeversAreWrittenIfBothHelp(t *testing.T) {
	first := leversOf(leverOf("gogc=400", compare.Faster, 0.6), leverOf("conns=4", compare.Faster, 0.8))
	pair := func(beyond, excess float64) []string {
		both := leverOf("gogc=400 and conns=4", compare.Faster, 0.6*beyond)
		both.Write, both.Both, both.Beyond, both.Excess = "line of gogc=400\nline of conns=4", []string{"gogc=400", "conns=4"}, ratioOf(beyond), ratioOf(excess)
		return Levers(nil, first, leversOf(both))
	}
	adds := pair(0.8, 1)
	if !strings.Contains(adds[2], "Together: gogc=400 and conns=4: calls take 0.48×") || !strings.HasSuffix(adds[2], "; the effects add up.") {
		t.Errorf("%q", adds)
	}
	if code := adds[len(adds)-2:]; !slices.Equal(code, []string{words.CodeIndent + "line of gogc=400", words.CodeIndent + "line of conns=4"}) || len(adds) > words.MaxLines {
		t.Errorf("%q", adds)
	}
	same := pair(1, 1.25)
	if !strings.HasSuffix(same[2], "no gain over gogc=400 alone is proven.") || same[len(same)-1] != words.CodeIndent+"line of gogc=400" {
		t.Errorf("%q", same)
	}
}

func TestDelaysNameTheLimit(t *testing.T) {
	delay := func(name string, slope float64) compare.LeverEffect {
		e := leverOf(name, compare.Slower, 1.5)
		e.IsDelay, e.Slope = true, ratioOf(slope)
		return e
	}
	for _, c := range []struct {
		server, client float64
		want           string
	}{
		{3.9, 1, "Delays: 1 µs more per call at the server costs 3.9 µs (3.7 µs to 4.09 µs), at the client 1 µs (0.95 µs to 1.05 µs): the server is the limit."},
		{1, 2, "Delays: 1 µs more per call at the server costs 1 µs (0.95 µs to 1.05 µs), at the client 2 µs (1.9 µs to 2.1 µs): the client is the limit."},
		{1, 1, "Delays: 1 µs more per call at the server costs 1 µs (0.95 µs to 1.05 µs), at the client 1 µs (0.95 µs to 1.05 µs)."},
	} {
		got := Levers(nil, leversOf(leverOf("gogc=400", compare.Equivalent, 1), delay("busy-server=20µs", c.server), delay("busy-client=20µs", c.client)))
		if got[1] != c.want || strings.Contains(got[0], "3 levers") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
