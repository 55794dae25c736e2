package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/show/report"
)

// TestLiveViewFitsTheTerminal holds the lines against the width, and a frame
// against the one that it is written over.
func TestLiveViewFitsTheTerminal(t *testing.T) {
	view := liveView{title: "A title", trials: 4, done: 1, cell: "cell/tcp", last: "a failure\nof two lines", now: lab.Progress{Done: 7, Fraction: 0.5}}
	for _, width := range []int{0, 5, 40, 200} {
		for _, line := range view.lines(report.Terminal{Width: width}) {
			if n := len([]rune(line)); n > width || strings.Contains(line, "\n") {
				t.Errorf("a line of %d in a terminal of %d: %q", n, width, line)
			}
		}
	}
	lines := view.lines(report.Terminal{Width: 200, Colour: true})
	text := strings.Join(lines, "\n")
	for _, want := range []string{"\x1b[1mA title\x1b[m", "1 of 4 trials", "now   cell/tcp: 50 %, 7 requests", "\x1b[2mlast  a failure of two lines\x1b[m", "■"} {
		if !strings.Contains(text, want) {
			t.Errorf("the view lacks %q:\n%s", want, text)
		}
	}
	if got, want := frame([]string{"a", "b"}, 3), "\r\x1b[3Aa\x1b[K\nb\x1b[K\n\x1b[J"; got != want {
		t.Errorf("a frame is %q, want %q", got, want)
	}
}

// A title that was announced is not shown twice, and a run that has ended has no time left.
func TestLiveViewSaysThingsOnce(t *testing.T) {
	terminal := report.Terminal{Width: 80}
	view := liveView{title: viewTitle(nil), trials: 2, done: 1, ends: time.Now().Add(time.Hour + time.Second)}
	if lines := view.lines(terminal); len(lines) != 2 || !strings.Contains(lines[0], "1 of 2 trials, about 1h0m") {
		t.Errorf("before the end:\n%s", strings.Join(lines, "\n"))
	}
	view.done, view.took = 2, 90*time.Second
	if lines := view.lines(terminal); len(lines) != 1 || !strings.HasSuffix(lines[0], "2 of 2 trials, took 1m30s") {
		t.Errorf("at the end:\n%s", strings.Join(lines, "\n"))
	}
	if got := viewTitle(&record.Until{Begun: 1, Looks: make([]record.Look, 3)}); got != "look 1 of at most 3" {
		t.Errorf("a look is called %q", got)
	}
}

// What is to be measured tells how long it takes before the first trial has ended.
func TestLiveViewKnowsTheTimeFromTheStart(t *testing.T) {
	var screen strings.Builder
	l := newLive(&screen, "", newEstimate(planned(t, 2, time.Hour), nil))
	l.close()
	if left := time.Until(l.view.ends); left < time.Hour || left > 3*time.Hour {
		t.Errorf("%v left of two hours", left)
	}
}

// TestLiveViewEnds leaves the last state on the screen.
func TestLiveViewEnds(t *testing.T) {
	var screen strings.Builder
	l := newLive(&screen, "A title", &estimate{})
	l.close()
	if !strings.HasSuffix(screen.String(), "\x1b[J") {
		t.Errorf("the screen ends with %q", screen.String())
	}
	newLive(io.Discard, "", &estimate{}).close()
}
