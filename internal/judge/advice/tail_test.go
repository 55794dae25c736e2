package advice

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/insight"
)

// tailInsight returns the insight of three passes, each with 1,000 calls over a variant with 50
// clients. call returns the stages of a call in microseconds.
func tailInsight(variant string, cost float64, call func(pass, i int) []int64) *insight.Insight {
	cell := record.Cell{Part: "p", Variant: variant, Place: record.Place{Workload: "echo", Clients: 50}}
	var passes []*record.Record
	for pass := range 3 {
		life := &record.Life{Stages: []string{"server: run queue", "client: collector", "handler", "answer"}, TracedNS: new(1000 * cost), BareNS: new(1000.0)}
		for i := range 1000 {
			stages := call(pass, i)
			for stage := range stages {
				stages[stage] *= 1000
			}
			life.Calls = append(life.Calls, stages)
		}
		passes = append(passes, &record.Record{Probe: record.ProbeLife, Cell: cell, Trial: pass, Life: life})
	}
	return &insight.FindInsights(nil, nil, passes, insight.BuiltInCategories())[0]
}

// slowEvery100 adds times to the stages of every 100th call.
func slowEvery100(more ...int64) func(pass, i int) []int64 {
	return func(_, i int) []int64 {
		call := []int64{20, 20, 20, 20}
		if i%100 == 0 {
			for stage, us := range more {
				call[stage] += us
			}
		}
		return call
	}
}

func TestTailSentences(t *testing.T) {
	for _, test := range []struct {
		name string
		cost float64
		call func(pass, i int) []int64
		want string
	}{
		{"two causes", 1.1, slowEvery100(620, 210, 80, 90), "The slowest 1 % of calls over grpc with 50 clients (30 of 3,000) take 1.08 ms, 13.5 times the median: 62 % of the difference is the run queue on the server and 21 % the garbage collector on the client; every 100th call."},
		{"a probe that costs much", 1.16, slowEvery100(0, 0, 720), "The slowest 1 % of calls over grpc with 50 clients (30 of 3,000) take 800 µs, 10 times the median: all of the difference is the handler; every 100th call. The probe made calls take 1.16 times as long."},
		{"four equal stages", 1, slowEvery100(40, 40, 40, 40), "The slowest 1 % of calls over grpc with 50 clients (30 of 3,000) take 240 µs, 3 times the median: no single cause explains the difference; the largest parts are server: run queue (25 %), client: collector (25 %) and handler (25 %); every 100th call."},
		{"a stage without a cause", 1, slowEvery100(0, 0, 0, 720), "no single cause explains the difference; the largest part is answer (100 %)"},
		{"another cause in each pass", 1, func(pass, i int) []int64 {
			call := []int64{20, 20, 20, 20}
			if i%101 == 0 {
				call[pass] += 720
			}
			return call
		}, "no single cause is proven; the largest parts are server: run queue (33 %), client: collector (33 %) and handler (33 %)"},
		{"one pass is slow", 1, func(pass, i int) []int64 {
			call := slowEvery100(0, 720)(pass, i)
			if pass == 1 {
				call[2] += 9000
			}
			return call
		}, "all of the difference is the garbage collector on the client; every 100th call."},
	} {
		sentences := tailSentences(insight.Explain(tailInsight("grpc", test.cost, test.call), nil))
		if len(sentences) != 1 || !strings.Contains(sentences[0], test.want) {
			t.Errorf("%s: %q, want %q", test.name, sentences, test.want)
		}
	}
}

// TestTailSentenceForEachCell wants the explained cell first, after the sentence about the means, and
// no sentence about calls that all take the same time.
func TestTailSentenceForEachCell(t *testing.T) {
	of, against := tailInsight("grpc", 1, slowEvery100(0, 720)), tailInsight("tcp", 1, slowEvery100(0, 0, 720))
	all := Explain(insight.Explain(of, against))
	if len(all) != 3 || !strings.Contains(all[1], "over grpc") || !strings.Contains(all[1], "collector") || !strings.Contains(all[2], "over tcp") || !strings.Contains(all[2], "the handler") {
		t.Errorf("%q", all)
	}
	if none := tailSentences(insight.Explain(tailInsight("grpc", 1, slowEvery100()), nil)); none != nil {
		t.Errorf("%q", none)
	}
}

// TestTailCauseWords names every cause that a stage may have.
func TestTailCauseWords(t *testing.T) {
	for _, kind := range []insight.CauseKind{
		insight.ByRunQueue, insight.ByCollector, insight.ByLock, insight.ByWindow, insight.ByNeighbour, insight.ByConnection, insight.ByHeadOfLine,
		insight.ByPackets, insight.ByWaking, insight.ByProtocol,
	} {
		for end, want := range map[string]string{"": " at both ends", insight.ServerEnd: " on the server"} {
			if text := tailCauseWords(insight.Cause{Kind: kind, End: end}); !strings.HasSuffix(text, want) || text == want {
				t.Errorf("%s at %q: %q", kind, end, text)
			}
		}
	}
	for n, want := range map[int]string{2: "2nd", 3: "3rd", 11: "11th", 21: "21st", 100: "100th", 112: "112th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
