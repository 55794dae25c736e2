package advice

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
)

func wantChoice(t *testing.T, s *analysis.Summary, w UseCase, want ...string) {
	t.Helper()
	lines, _ := Choose(s, w)
	for _, line := range lines {
		if len([]rune(line)) > words.MaxSentenceLength {
			t.Errorf("too long: %s", line)
		}
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%+v gives\n%s\nwant\n%s", w, got, strings.Join(want, "\n"))
	}
}

// overtaking is a run in which grpc is faster than tcp above 50 callers.
func overtaking(trials int) *analysis.Summary {
	run := usual()
	run.trials, run.variants = trials, []string{"tcp", "grpc"}
	run.mean = func(variant string, at rank.Point) float64 {
		if (variant == "grpc") == (at.Clients > 50) {
			return 100
		}
		return 150
	}
	run.p99 = func(variant string, at rank.Point) float64 { return 2 * run.mean(variant, at) }
	s := &analysis.Summary{}
	run.addTo(s)
	return s
}

func TestChoiceFindsWhoOvertakes(t *testing.T) {
	s := overtaking(3)
	wantChoice(
		t, s, UseCase{},
		"Certain: with 1 to 50 clients tcp is fastest at all 8 points, 1.5 times before the next.",
		"Certain: with 100 and 200 clients grpc is fastest at all 4 points, 1.5 times before the next.",
		"64 B, 1 client: tcp 100 µs; grpc 1.5× slower (1.47 to 1.53)",
		"4 KiB, 200 clients: grpc 100 µs; tcp 1.5× slower (1.47 to 1.53)",
		"Do: with 1 to 50 clients choose tcp; with 100 and 200 clients choose grpc.",
		"Measured here, 64 B to 4 KiB with 1 to 200 clients; other cases are unknown.",
	)
	four := scenario.Payload{Request: 4096, Response: 4096}
	wantChoice(
		t, s, UseCase{Size: four, Callers: 100},
		"Certain: grpc is fastest, 1.5 times before the next.",
		"4 KiB, 100 clients: grpc 100 µs; tcp 1.5× slower (1.47 to 1.53)",
		"Do: choose grpc.",
		"Measured here, 4 KiB with 100 clients; other cases are unknown.",
	)
	// Between two concurrencies that disagree both rules stand.
	wantChoice(
		t, s, UseCase{Size: four, Callers: 75},
		"Certain: with 50 clients tcp is fastest, 1.5 times before the next.",
		"Certain: with 100 clients grpc is fastest, 1.5 times before the next.",
		"4 KiB, 50 clients: tcp 100 µs; grpc 1.5× slower (1.47 to 1.53)",
		"4 KiB, 100 clients: grpc 100 µs; tcp 1.5× slower (1.47 to 1.53)",
		"Do: with 50 clients choose tcp; with 100 clients choose grpc.",
		"Measured here, 4 KiB with 50 to 100 clients; other cases are unknown.",
	)
}

func TestChoiceKeepsAGoal(t *testing.T) {
	goal := func(limit time.Duration) scenario.Goal {
		return scenario.Goal{Percentile: 99, Limit: scenario.Duration(limit)}
	}
	s := overtaking(3)
	wantChoice(
		t, s, UseCase{Callers: 16, Goal: goal(250 * time.Microsecond)},
		"Keeps p99<250µs: tcp, not grpc",
		"Use tcp: only it is sure to keep the goal.",
	)
	wantChoice(
		t, s, UseCase{Callers: 16, Goal: goal(201 * time.Microsecond)},
		"Keeps p99<201µs: perhaps tcp, not grpc",
		"No advice: no variant is sure to keep the goal; relax it, or measure more repeats.",
	)
}

func TestNoChoiceWhereTheDataBearNone(t *testing.T) {
	wantChoice(
		t, overtaking(1), UseCase{},
		"Open: too few trials to tell; tcp had the lowest mean at 8 of 12 points.",
		"64 B, 1 client: tcp 100 µs; grpc 1.5×",
		"4 KiB, 200 clients: grpc 100 µs; tcp 1.5×",
		"Do: take 3 repeats or more: 24 of 24 cells have too few trials for a verdict.",
		"Measured here, 64 B to 4 KiB with 1 to 200 clients; other cases are unknown.",
	)
	s := overtaking(3)
	wantChoice(t, s, UseCase{Callers: 500}, "No advice: the case is outside of the measured range, 64 B to 4 KiB with 1 to 200 clients.")
	wantChoice(t, s, UseCase{Size: scenario.Payload{Request: 1 << 20, Response: 1 << 20}}, "No advice: the case is outside of the measured range, 64 B to 4 KiB with 1 to 200 clients.")
	wantChoice(t, s, UseCase{NewConnections: true}, "No advice: the run does not compare two variants with a new connection per request.")
	wantChoice(t, &analysis.Summary{}, UseCase{}, "No advice: the run does not compare two variants with kept connections.")
}
