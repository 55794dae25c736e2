package advice

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/insight"
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
		"A call over grpc takes 60 µs longer than over tcp at 64 B with 1 client (2.5 times): most of the difference is server: decode (28 µs) and client: encode (22 µs).",
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
	if text := Explain(e)[0]; text != "A call over grpc takes 40 µs at 64 B with 1 client: most is handler (30 µs)." {
		t.Error(text)
	}
}
