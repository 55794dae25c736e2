package advice

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// wantShort wants lines that fit on a screen.
func wantShort(t *testing.T, lines []string) {
	t.Helper()
	if len(lines) > words.MaxLines {
		t.Errorf("%d lines, want at most %d", len(lines), words.MaxLines)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > words.MaxSentenceLength {
			t.Errorf("%d characters, want at most %d: %s", n, words.MaxSentenceLength, line)
		}
	}
}

// Names of any length leave no line too long.
func TestAnswerCutsNamesThatAreTooLong(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	long := strings.Repeat("tls=on,", 30)
	for i := range s.Cells {
		s.Cells[i].Variant = s.Cells[i].Variant + ":" + long
	}
	for i := range s.Comparisons {
		c := &s.Comparisons[i]
		c.A, c.B = c.A+":"+long, c.B+":"+long
	}
	wantShort(t, Answer(s))
}

func TestAnswerCountsClaims(t *testing.T) {
	s := &analysis.Summary{Done: 1, Planned: 1}
	usual().addTo(s)
	for i, outcome := range []compare.Outcome{compare.Compatible, compare.Underpowered, compare.Underpowered, compare.Underpowered, compare.Refuted} {
		s.Claims = append(s.Claims, compare.Claim{Says: fmt.Sprint(i), Outcome: outcome, Pairs: 3})
	}
	s.Claims[1].NeededPairs, s.Claims[2].NeededPairs = new(40), new(12)
	text := strings.Join(Answer(s), "\n")
	for _, want := range []string{"5 claims: 1 compatible, 1 refuted, 3 underpowered.", "Do: take about 40 repeats: that decides 2 of the 3 open claims."} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

func TestAnswerSaysWhyClaimsHaveTooFewRepeats(t *testing.T) {
	for want, spoil := range map[string]func(*analysis.Summary){
		"Do: take 3 repeats or more: too few valid repeats for 1 of 1 open claim.": func(*analysis.Summary) {},
		"Do: close other programs (pip 16 %, cc1 12 %): too few valid repeats for 1 of 1 open claim.": func(s *analysis.Summary) {
			disturb(s)
			s.Invalid = 2
		},
	} {
		s := &analysis.Summary{Done: 1, Planned: 1}
		usual().addTo(s)
		s.Claims = []compare.Claim{{Says: "it", Outcome: compare.Underpowered, Pairs: 1}}
		spoil(s)
		if text := strings.Join(Answer(s), "\n"); !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

// disturb adds other programs that spoil a trial.
func disturb(s *analysis.Summary) {
	s.Others = &analysis.OtherPrograms{Share: 0.52, Programs: []analysis.OtherProgram{{Name: "pip", Share: 0.16}, {Name: "cc1", Share: 0.12}}}
	s.Cells[0].Findings = []matrix.Finding{{Name: "gaps", Level: record.Invalid, Trials: 40, Detail: "a gap"}}
	s.Invalid = 40
}

func TestAnswerSaysWhetherDirectionMatters(t *testing.T) {
	run := usual()
	run.sizes, run.clients = []record.Payload{{RequestBytes: 64, ResponseBytes: 4096}, {RequestBytes: 4096, ResponseBytes: 64}}, []int{1}
	run.mean = func(_ string, at rank.Point) float64 {
		if at.Size.ResponseBytes > at.Size.RequestBytes {
			return 150
		}
		return 100
	}
	s := &analysis.Summary{}
	run.addTo(s)
	want := "64 B → 4 KiB over 4 KiB → 64 B, 1 client: tcp 1.5×, rest 1.5×, grpc 1.5×"
	if text := strings.Join(Answer(s), "\n"); !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
}

// nearlyEqual returns a run in which tcp is a little ahead of rest at every point, and no point proves it.
func nearlyEqual() *analysis.Summary {
	y := usual()
	y.variants = []string{"tcp", "rest"}
	y.mean = func(variant string, _ rank.Point) float64 {
		return map[string]float64{"tcp": 100, "rest": 101.8}[variant]
	}
	s := &analysis.Summary{Command: strings.Fields("wirelab compare --stack tcp,rest")}
	y.addTo(s)
	return s
}

func TestALikelyAnswerNamesEvidenceCauseAndCommand(t *testing.T) {
	s := nearlyEqual()
	disturb(s)
	lines := Answer(s)
	wantShort(t, lines)
	holds(t, strings.Join(lines, "\n"),
		"Likely: tcp is fastest (lowest mean at all 12 points, 1.02 times before the next; proven at none).",
		"Do: choose tcp, unless something else speaks against it; to settle the rest:\n  wirelab compare --stack tcp,rest "+strings.Join(settlingFlags, " "),
		"Trust: 32 of 72 trials valid; other programs used half of the CPUs (pip 16 %, cc1 12 %): close them.",
	)
	if got, want := Standings(s), []string{"tcp 1.0 | rest 1.02×"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAnOpenAnswerRecommendsNothing(t *testing.T) {
	s := nearlyEqual()
	for i := range s.Comparisons { // the variants lead by turns
		if c := &s.Comparisons[i]; i/3%2 == 1 {
			c.Ratio = c.Ratio.Inverse()
		}
	}
	text := strings.Join(Answer(s), "\n")
	holds(t, text, "Open: no variant is proven fastest; tcp had the lowest mean at 6 of 12 points.", "Do: measure the open points again, for longer:\n  wirelab compare ")
	holdsNone(t, text, "choose", "any")
	disturb(s)
	holds(t, strings.Join(Answer(s), "\n"), "Do: close other programs (pip 16 %, cc1 12 %), then measure again:\n  wirelab compare ")
}

func TestALeadCoversNoPointOfAnotherWinner(t *testing.T) {
	y := usual()
	y.mean = func(variant string, at rank.Point) float64 {
		if (variant == "grpc") == (at.Clients == 200) {
			return 100
		}
		return 150
	}
	s := &analysis.Summary{}
	y.variants = []string{"tcp", "grpc"}
	y.addTo(s)
	holds(t, strings.Join(Answer(s), "\n"),
		"Certain: with 1 to 100 clients tcp is fastest at all 10 points, 1.5 times before the next.",
		"Certain: with 200 clients grpc is fastest at both points, 1.5 times before the next.",
		"Do: with 1 to 100 clients choose tcp; with 200 clients choose grpc.")
}

// An answer about a run in progress asks to wait first. The page and the terminal call the run partial.
func TestAPartialRunIsNamedOnce(t *testing.T) {
	s := nearlyEqual()
	s.Status, s.Planned = record.Running, s.Done+5
	text := strings.Join(Answer(s), "\n")
	holds(t, text, "Do: wait for the other 5 trials; if the run was stopped, continue it with wirelab run --resume.")
	holdsNone(t, text, "artial", "choose")
}

func TestProbesGiveTheReason(t *testing.T) {
	s := nearlyEqual()
	s.Insights = []insight.Insight{{Variant: "tcp", Life: &insight.Life{Mean: 100, Stages: []insight.Stage{{Name: "client: reading", Mean: 90, Error: 1}}}}}
	if got, want := lastLine(Answer(s), "Why: "), "Why: "+Advise(s)[slices.IndexFunc(Advise(s), func(text string) bool { return strings.HasPrefix(text, "A traced call over tcp takes") })]; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
