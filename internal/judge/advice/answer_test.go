package advice

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
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
