package view

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/show/report/format"
)

// TestRunViewFitsTheTerminal holds the lines against the width, and a frame
// against the one that it is written over.
func TestRunViewFitsTheTerminal(t *testing.T) {
	view := runContent{title: "A title", at: RunProgress{Done: 1, Trials: 4}, cell: "cell/tcp", last: "a failure\nof two lines", now: live.Progress{Done: 7, Fraction: 0.5}, sparks: newSparks(nil, nil)}
	for _, width := range []int{0, 5, 40, 200} {
		for _, line := range view.lines(format.Terminal{Width: width}, time.Now()) {
			if n := len([]rune(line)); n > width || strings.Contains(line, "\n") {
				t.Errorf("a line of %d in a terminal of %d: %q", n, width, line)
			}
		}
	}
	lines := view.lines(format.Terminal{Width: 200, Colour: true}, time.Now())
	text := strings.Join(lines, "\n")
	for _, want := range []string{"\x1b[1mA title\x1b[0m", "1 of 4 trials", "now   cell/tcp: 50 %, 7 requests", "\x1b[2mlast  a failure of two lines\x1b[0m", "■"} {
		if !strings.Contains(text, want) {
			t.Errorf("the view lacks %q:\n%s", want, text)
		}
	}
	if got, want := redrawText([]string{"a", "b"}, 3), "\r\x1b[3Aa\x1b[K\r\nb\x1b[K\r\n\x1b[J"; got != want {
		t.Errorf("a frame is %q, want %q", got, want)
	}
}

// A run that has ended has no time left.
func TestRunViewSaysThingsOnce(t *testing.T) {
	terminal, now := format.Terminal{Width: 80}, time.Now()
	view := runContent{at: RunProgress{Done: 1, Trials: 2}, ending: now.Add(time.Hour + time.Second), sparks: newSparks(nil, nil)}
	if lines := view.lines(terminal, now); len(lines) != 2 || !strings.Contains(lines[0], "1 of 2 trials, about 1h0m") {
		t.Errorf("before the end:\n%s", strings.Join(lines, "\n"))
	}
	view.at = RunProgress{Done: 2, Trials: 2, Took: 90 * time.Second}
	if lines := view.lines(terminal, now); len(lines) != 1 || !strings.HasSuffix(lines[0], "2 of 2 trials, took 1m30s") {
		t.Errorf("at the end:\n%s", strings.Join(lines, "\n"))
	}
}

// The view knows how long the run takes before the first trial has ended, and without a terminal
// prints one line per trial.
func TestRunViewKnowsTheTimeFromTheStart(t *testing.T) {
	left := 2 * time.Hour
	c := newRunContent(Run{Progress: func() RunProgress { return RunProgress{Done: 1, Trials: 2, Left: left} }}, time.Now())
	if got := time.Until(c.ending); got < left-time.Minute || got > left {
		t.Errorf("%v left of two hours", got)
	}
	if line, want := c.trialEnds(&record.Record{Failure: "flooded"}, time.Now()), "failed: flooded, about 2h0m0s left"; !strings.HasPrefix(line, "1/2 ") || !strings.HasSuffix(line, want) {
		t.Errorf("an end is said as %q, want %q", line, want)
	}
}

// TestViewEnds leaves the last state on the screen.
func TestViewEnds(t *testing.T) {
	var screen strings.Builder
	v := newView(&screen, true, newRunContent(Run{Progress: func() RunProgress { return RunProgress{} }}, time.Now()))
	go v.drawUntilClosed(nil)
	v.Close()
	if !strings.HasSuffix(screen.String(), "\x1b[J") {
		t.Errorf("the screen ends with %q", screen.String())
	}
}
