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
	lines := Choose(s, w)
	for _, line := range lines {
		if len([]rune(line)) > words.MaxLineLength {
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
		"With 1 to 50 clients use tcp.",
		"With 100 to 200 clients use grpc.",
		"64 B, 1 client: tcp 100 µs; grpc 1.5× (1.47 to 1.53)",
		"4 KiB, 200 clients: grpc 100 µs; tcp 1.5× (1.47 to 1.53)",
		"Measured here, 64 B to 4 KiB with 1 to 200 clients; other cases are unknown.",
	)
	four := scenario.Payload{Request: 4096, Response: 4096}
	wantChoice(
		t, s, UseCase{Size: four, Callers: 100},
		"With 100 clients use grpc.",
		"4 KiB, 100 clients: grpc 100 µs; tcp 1.5× (1.47 to 1.53)",
		"Measured here, 4 KiB with 100 clients; other cases are unknown.",
	)
	// Between two concurrencies that disagree both rules stand.
	wantChoice(
		t, s, UseCase{Size: four, Callers: 75},
		"With 50 clients use tcp.",
		"With 100 clients use grpc.",
		"4 KiB, 50 clients: tcp 100 µs; grpc 1.5× (1.47 to 1.53)",
		"4 KiB, 100 clients: grpc 100 µs; tcp 1.5× (1.47 to 1.53)",
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
	wantChoice(t, overtaking(1), UseCase{}, "No advice: no difference of the mean is proven, 64 B to 4 KiB with 1 to 200 clients.")
	s := overtaking(3)
	wantChoice(t, s, UseCase{Callers: 500}, "No advice: the case is outside of the measured range, 64 B to 4 KiB with 1 to 200 clients.")
	wantChoice(t, s, UseCase{Size: scenario.Payload{Request: 1 << 20, Response: 1 << 20}}, "No advice: the case is outside of the measured range, 64 B to 4 KiB with 1 to 200 clients.")
	wantChoice(t, s, UseCase{NewConnections: true}, "No advice: the run does not compare two variants with a new connection per request.")
	wantChoice(t, &analysis.Summary{}, UseCase{}, "No advice: the run does not compare two variants with kept connections.")
}
