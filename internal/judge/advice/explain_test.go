package advice

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// TestExplainNamesWhatIsClear: parts that may be chance are not named, nor those that go the
// other way.
func TestExplainNamesWhatIsClear(t *testing.T) {
	of := &insight.Insight{Variant: "grpc", Place: record.Place{Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 1}}
	against := &insight.Insight{Variant: "tcp", Place: record.Place{Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 1}}
	e := &insight.Explanation{
		Of: of, Against: against,
		Stages: []insight.ExplainedFigure{{
			Whole: insight.Change{Name: "a call", A: 40, B: 100},
			Parts: []insight.Change{{Name: "server: decode", A: 2, B: 30}, {Name: "wake server", A: 20, B: 2}, {Name: "client: encode", A: 2, B: 24}},
		}},
		CPU: []insight.ExplainedFigure{{
			End: "server", Whole: insight.Change{A: 20, B: 60},
			Parts: []insight.Change{{Name: "TLS", A: 0, B: 25, Error: 10}, {Name: "allocation", A: 0, B: 10, Error: 1}},
		}},
		Syscalls: []insight.Change{{Name: "futex", End: "client", A: 0.5, B: 2}, {Name: "read", End: "server", A: 2, B: 2.1}},
	}
	text := strings.Join(Explain(e), "\n")
	for _, want := range []string{
		"A traced call over grpc takes 60 µs longer than over tcp: most of the difference is server: decode (28 µs) and client: encode (22 µs).",
		"40 µs more on the server, most of it allocation (10 µs).",
		"2 futex on the client, against 0.5.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the words lack %q:\n%s", want, text)
		}
	}
	for _, not := range []string{"TLS", "wake server", "read"} {
		if strings.Contains(text, not) {
			t.Errorf("the words have %q:\n%s", not, text)
		}
	}
	// The largest differences are named, also if they are the server's and come last.
	e.Syscalls = append(e.Syscalls, insight.Change{Name: "b", End: "client", A: 1, B: 2}, insight.Change{Name: "c", End: "client", A: 1, B: 2}, insight.Change{Name: "getppid", End: "server", B: 10})
	if text := strings.Join(Explain(e), "\n"); !strings.Contains(text, ": 10 getppid on the server, against 0; 2 futex on the client") {
		t.Errorf("the words lack the largest difference:\n%s", text)
	}
	e.Stages[0].Whole, e.Stages[0].Parts = insight.Change{A: 100, B: 40}, []insight.Change{{Name: "handler", A: 50, B: 1}}
	if text := Explain(e)[0]; !strings.Contains(text, "60 µs shorter than over tcp") || !strings.Contains(text, "handler (49 µs)") {
		t.Error(text)
	}
	e.Against = nil
	e.Stages[0].Whole, e.Stages[0].Parts = insight.Change{B: 40}, []insight.Change{{Name: "handler", B: 30}}
	if text := Explain(e)[0]; text != "A traced call over grpc takes 40 µs at 64 B with 1 client: most is handler (30 µs)." {
		t.Error(text)
	}
}

// withMeans returns an explanation of two cells that were measured.
func withMeans(a, b float64, verdict compare.Verdict, low, high float64) *insight.Explanation {
	place := record.Place{Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 1}
	return &insight.Explanation{
		Of: &insight.Insight{Variant: "grpc:gogc=10", Place: place}, Against: &insight.Insight{Variant: "grpc", Place: place},
		Measured: insight.Measured{A: &a, B: &b, Verdict: verdict, Ratio: &matrix.Figure{Value: b / a, Interval: &matrix.Interval{Low: low, High: high, Confidence: 0.95}}},
	}
}

// TestTheFirstSentenceHasTheVerdictOfTheTrials: whatever the probes find.
func TestTheFirstSentenceHasTheVerdictOfTheTrials(t *testing.T) {
	collector := insight.Cause{Kind: insight.ByCollector, End: insight.ServerEnd, Time: 21, Because: "the heap may grow by only 10 % (gogc=10)"}
	switches := insight.Cause{Kind: insight.ByWaking, Time: 4}
	equal := withMeans(82, 82.4, compare.Equivalent, 0.99, 1.02)
	equal.Measured.Margin = 0.02
	few := withMeans(82, 109, "", 0, 0)
	few.Of.Facts, few.Against.Facts = insight.Facts{Trials: 3, Valid: 1}, insight.Facts{Trials: 3, Valid: 3}
	disturbed := withMeans(82, 109, "", 0, 0)
	disturbed.Of.Facts, disturbed.Against.Facts = insight.Facts{Trials: 3, Others: new(0.85)}, insight.Facts{Trials: 3, Valid: 3}
	one := withMeans(0, 82, "", 0, 0)
	one.Against, one.Measured.A, one.Measured.Ratio = nil, nil, nil
	for _, c := range []struct {
		e      *insight.Explanation
		causes []insight.Cause
		want   string
	}{
		{withMeans(82, 109, compare.Slower, 1.3, 1.36), []insight.Cause{collector}, "A call over grpc:gogc=10 takes 27 µs longer than over grpc at 64 B with 1 client (+33 %): 21 µs of it is the server's garbage collector, because the heap may grow by only 10 % (gogc=10)."},
		{withMeans(82, 109, compare.Slower, 1.3, 1.36), []insight.Cause{switches}, "(+33 %): 4 µs of it is waking and switching threads at both ends; what is left is not explained; the cells differ in gogc=10."},
		{withMeans(82, 109, compare.Slower, 1.3, 1.36), nil, "(+33 %). The probes name no cause; the cells differ in gogc=10."},
		{withMeans(109, 82, compare.Faster, 0.7, 0.8), []insight.Cause{{Kind: insight.ByCollector, Time: -40, Because: "buffers=pooled is not set"}}, "takes 27 µs shorter than over grpc at 64 B with 1 client (−25 %): 40 µs less per call is the garbage collectors of both ends, because over grpc buffers=pooled is not set."},
		{withMeans(82, 85, compare.Undecided, 0.98, 1.09), []insight.Cause{collector}, "The measured trials do not prove that calls over grpc:gogc=10 and over grpc differ at 64 B with 1 client (−2 % to +9 %). The probes point to 21 µs more in the server's garbage collector, because"},
		{withMeans(82, 85, compare.Undecided, 0.98, 1.09), nil, "(−2 % to +9 %). The probes name no cause either."},
		{equal, nil, "Calls over grpc:gogc=10 and over grpc take equally long at 64 B with 1 client, within 2 %: there is no difference to explain."},
		{few, []insight.Cause{collector}, "Too few trials are valid at 64 B with 1 client: 1 of 3 trials over grpc:gogc=10 and 3 of 3 trials over grpc. The probes point to 21 µs more in"},
		{disturbed, nil, "Other programs used 0.85 CPUs, so too few trials are valid at 64 B with 1 client: 0 of 3 trials over grpc:gogc=10 and 3 of 3 trials over grpc. "},
		{one, []insight.Cause{{Kind: insight.ByHandlerWait, Time: 70}}, "70 µs of it is the handler, which waits, for what is not known."},
		{one, []insight.Cause{switches, collector}, "A call over grpc:gogc=10 takes 82 µs at 64 B with 1 client: 4 µs of it is waking and switching threads at both ends; 21 µs is the server's garbage collector, because the heap may grow by only 10 % (gogc=10); what is left is not explained."},
	} {
		c.e.Of.Settings, c.e.Causes = []insight.CellOption{{Key: "gogc", Value: "10"}}, c.causes
		if got := Explain(c.e)[0]; !strings.Contains(got, c.want) {
			t.Errorf("%q\nlacks %q", got, c.want)
		}
	}
}

// TestEveryKindOfCauseHasWords: at one end and at both.
func TestEveryKindOfCauseHasWords(t *testing.T) {
	for _, kind := range insight.CauseKinds {
		for _, end := range []string{"", insight.ClientEnd, insight.ServerEnd} {
			if text := causeText(insight.Cause{Kind: kind, End: end}); text == "" || strings.Contains(text, "%") {
				t.Errorf("%s at %q: %q", kind, end, text)
			}
		}
	}
}

// TestAWaitWithoutAReasonNamesTheProbe that knows it.
func TestAWaitWithoutAReasonNamesTheProbe(t *testing.T) {
	const hint = "measure again with --probe life,cpu,offcpu"
	for _, c := range []struct {
		because string
		seen    bool
		want    bool
	}{{"", false, true}, {"it sleeps 5 ms (stall=5ms)", false, false}, {"", true, false}} {
		e := withMeans(82, 5082, compare.Slower, 40, 80)
		e.Causes = []insight.Cause{{Kind: insight.ByHandlerWait, End: insight.ServerEnd, Time: 5000, Because: c.because}}
		if c.seen {
			e.Of.Server.OffCPU = &insight.Breakdown{}
		}
		if got := strings.Join(Explain(e), "\n"); strings.Contains(got, hint) != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
