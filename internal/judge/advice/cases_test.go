package advice

import (
	"math"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// usersAPI is a small study of the users API: closed loops that wait, one that
// does not, bursts, a sustained load, and the ladder from gRPC to REST.
func usersAPI(trials int) *analysis.Summary {
	s := &analysis.Summary{
		Report:   scenario.Report{Cases: true},
		Declared: scenario.Declarations{Workloads: []scenario.Declaration{{Name: "users", Options: []scenario.Option{{Key: "work", Role: scenario.SimulatedWorkRole}}}}},
	}
	for _, part := range []struct {
		name   string
		slower float64
	}{{"get-user", 1.01}, {"get-users", 1.6}} {
		sampleRun{
			part: part.name, sizes: both(0), clients: []int{10, 100}, variants: []string{"grpc", "rest-json"}, trials: trials, model: "closed",
			mean: func(v string, at rank.Point) float64 {
				if v == "rest-json" && at.Clients == 100 {
					return 10_500 * part.slower
				}
				return 10_500
			},
			p99: func(string, rank.Point) float64 { return 14_000 },
		}.addTo(s)
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		c.Workload, c.Bound = "users:op="+c.Part, matrix.ByWaiting
		if c.Part == "get-users" && c.Variant == "rest-json" && c.Clients == 100 {
			c.Bound = matrix.ByServerCPU
		}
	}
	s.Cells = append(s.Cells, loaded(record.Load{Model: "sustained", RatePerSecond: 50}, 0, 0).Cells...)
	for i := range s.Comparisons {
		s.Comparisons[i].Workload = "users:op=" + s.Comparisons[i].Part
	}
	s.Shares = []compare.Shares{ladder(trials)}
	return s
}

// ladder returns a difference of 2: most of it comes from the encoding, and one layer
// takes some back.
func ladder(trials int) compare.Shares {
	sampleRun := sampleRun{trials: trials}
	d := compare.Shares{
		Part: "shares", Place: record.Place{Workload: "users:op=get-users,work=0s", Clients: 50}, Metric: matrix.CPU, From: "grpc", To: "rest-json", Pairs: trials,
		Ratio: sampleRun.figure(2), Decided: trials >= 3,
	}
	for i, change := range []string{
		"the protocol (REST for gRPC, both over HTTP/2, each by its usual library)", "the encoding (JSON for protobuf)",
		"the wire (HTTP/1.1 for HTTP/2)", "the framework (routes, resource paths and encoding/json)",
	} {
		share := []float64{0.4, 0.7, -0.12, 0.02}[i]
		step := compare.ShareStep{Change: change, To: []string{"h2", "h2:codec=json", "h1:codec=json", "rest-json"}[i], Ratio: sampleRun.figure(math.Pow(2, share)), Decided: d.Decided && i < 3}
		if d.Decided {
			step.Share = &matrix.Figure{Value: share, Interval: &matrix.Interval{Low: share - 0.03, High: share + 0.03, Confidence: 0.95}}
		}
		d.Steps = append(d.Steps, step)
	}
	return d
}

func TestUsersAPI(t *testing.T) {
	s := usersAPI(3)
	for i := range s.Comparisons {
		if c := s.Comparisons[i]; c.Metric == matrix.Mean && math.Abs(c.Ratio.Value-1) < 0.05 {
			s.Comparisons[i].Verdict = compare.Equivalent
		}
	}
	golden(t, "users-api", s)
}

func TestUsersAPIMeasuredOnce(t *testing.T) {
	text := strings.Join(Advise(usersAPI(1)), "\n")
	for _, want := range []string{
		"rest-json took 1 to 1.6 times as long as grpc in 4 cases: too few trials, so nothing is proven; longest in get-users.",
		"Undecided: rest-json over grpc, CPU 2× (1 trial), for users:op=get-users,work=0s with 50 clients, which may be no difference.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want\n%s\nin\n%s", want, text)
		}
	}
}

// The answer to what a difference is made of stands even where one trial gives no verdict.
func TestAnswerSaysWhichChangeMakesHowMuch(t *testing.T) {
	lines := Answer(usersAPI(1))
	wantShort(t, lines)
	want := "rest-json over grpc, CPU 2× (1 trial): protocol 1.32×, encoding 1.62×, "
	if text := strings.Join(lines, "\n"); !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
}

func TestADifferenceThatMayBeNoneIsNotShared(t *testing.T) {
	d := ladder(3)
	d.Decided = false
	if text := shareSentence(d); !strings.HasPrefix(text, "Undecided: ") || strings.Contains(text, "encoding") {
		t.Error(text)
	}
}
