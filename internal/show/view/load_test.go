package view

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/show/report/format"
)

// shownLoad is a load in the middle of its window.
func shownLoad() (loadContent, time.Time) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := loadContent{title: "GET http://127.0.0.1/", duration: 5 * time.Second, trials: 1, keys: true}
	s.trialBegins(record.PlannedTrial{}, began)
	for n := range 8 {
		microseconds := func(each int) time.Duration { return time.Duration(each*n*n*100) * time.Microsecond }
		s.progress(live.Progress{Done: int64(1000 * n), Fraction: float64(n) / 20, ClientCPU: time.Second + microseconds(26), ServerCPU: 1 + microseconds(73), Live: &live.Calls{
			SpanNS: 2e9, Ended: 24_690, Failed: 3, P50NS: 1_020_000, P90NS: 2_000_000, P99NS: 5_000_000, MaxNS: 9_100_000,
			InFlight: 10, Total: live.Total{Ended: int64(n * n * 100), Failed: 3},
			Histogram: []live.Bin{{UpToNS: 1_024_000, Count: 600}, {UpToNS: 2_048_000, Count: 300}, {UpToNS: 0, Count: 1}},
			Failures:  []record.ErrorCount{{Class: "reset", Code: "Unavailable", Count: 3}},
		}}, began.Add(time.Duration(n+1)*250*time.Millisecond))
	}
	return s, began.Add(2100 * time.Millisecond)
}

func TestLoadViewShowsTheLastSeconds(t *testing.T) {
	s, now := shownLoad()
	text := strings.Join(s.lines(format.Terminal{Width: 100}, now), "\n")
	for _, want := range []string{
		"GET http://127.0.0.1/",
		"[■■■■■■■■················] 2.1s, 3.3s left",
		"now    12,345/s   P50 1.02 ms   P90 2 ms   P99 5 ms   max 9.1 ms",
		"total  4,897 ok, 3 failed (0.0612 %), 10 in flight",
		"failed 3× Unavailable reset",
		"rate   ▁▂▃▄▅▆▇█ up to 5,200/s, 250ms each",
		"CPU    client 26 µs, service 73 µs per request",
		"≤ 1.02 ms  ██████████████████████████████████████████████████ 600",
		"above  ▏",
		"p pause   q end and report",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the view lacks %q:\n%s", want, text)
		}
	}
	if got, want := s.plainLine(now), "2.1s, 3.3s left: 12,345/s   P50 1.02 ms   P90 2 ms   P99 5 ms   max 9.1 ms; 4,897 ok, 3 failed (0.0612 %), 10 in flight"; got != want {
		t.Errorf("as a line: %q, want %q", got, want)
	}
}

func TestLoadViewFitsTheTerminal(t *testing.T) {
	s, now := shownLoad()
	s.title = strings.Repeat("long ", 100)
	for bin := range 30 {
		s.now.Live.Histogram = append(s.now.Live.Histogram, live.Bin{UpToNS: 1 << bin, Count: 1e12})
	}
	for _, width := range []int{0, 5, 40, 200} {
		lines := s.lines(format.Terminal{Width: width}, now)
		for _, line := range lines {
			if n := len([]rune(line)); n > width || strings.Contains(line, "\n") {
				t.Errorf("a line of %d in a terminal of %d: %q", n, width, line)
			}
		}
		if len(lines) > 23 {
			t.Errorf("%d lines: want all in a terminal of 24", len(lines))
		}
	}
}

func TestLoadViewSaysWhatGoesOn(t *testing.T) {
	for want, change := range map[string]func(*loadContent){
		"starting":                         func(s *loadContent) { s.now = live.Progress{} },
		"2.1s, warming up":                 func(s *loadContent) { s.now.Warming = true },
		"2.1s, paused":                     func(s *loadContent) { s.now.Paused = true },
		"2.1s, waiting for the last calls": func(s *loadContent) { s.now.Fraction = 1 },
		"about 4.1s left":                  func(s *loadContent) { s.duration, s.now.Fraction = 0, 0.3125 },
		"2 of 3, 2.1s":                     func(s *loadContent) { s.trials, s.done = 3, 1 },
		"ending; press Ctrl-C again":       func(s *loadContent) { s.ending = true },
		"p continue":                       func(s *loadContent) { s.wantsPause = true },
		"last   a/b: 5 requests/s":         func(s *loadContent) { s.trials, s.last = 2, "a/b: 5 requests/s" },
		"[■■■■■■■■■■■■············] 2 of 2, done": func(s *loadContent) { s.trials = 2; s.trialEnds(&record.Record{Failure: "ended"}, time.Now()) },
		"last   run 1, 0 clients: failed: ended":  func(s *loadContent) { s.trials = 2; s.trialEnds(&record.Record{Failure: "ended"}, time.Now()) },
		"1× A, 1× B, 1× C and 1 more":             func(s *loadContent) { s.now.Live.Failures = kinds("A", "B", "C", "D") },
		"now    0/s\ntotal":                       func(s *loadContent) { s.now.Live.Ended = 0 },
		"rates follow after one second":           func(s *loadContent) { s.now.Live.SpanNS = 0 },
	} {
		s, now := shownLoad()
		change(&s)
		if text := strings.Join(s.lines(format.Terminal{Width: 100}, now), "\n"); !strings.Contains(text, want) {
			t.Errorf("the view lacks %q:\n%s", want, text)
		}
	}
}

func kinds(codes ...string) (all []record.ErrorCount) {
	for _, code := range codes {
		all = append(all, record.ErrorCount{Code: code, Count: 1})
	}
	return all
}

// A search, and each trial, counts from nothing again.
func TestLoadViewCountsAnew(t *testing.T) {
	s, _ := shownLoad()
	s.progress(live.Progress{Live: &live.Calls{Total: live.Total{Ended: 50}}}, s.seenAt.Add(time.Second))
	if got := s.rates.rates[len(s.rates.rates)-1]; got != 50 {
		t.Errorf("the rate is %v, want 50", got)
	}
	s.progress(live.Progress{Fraction: 1}, s.seenAt.Add(time.Second))
	if s.now.Live == nil {
		t.Error("the last event of a client, which has no live figures, hides those before")
	}
}

// lockedBuffer may be written and read at once.
type lockedBuffer struct {
	guard sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.guard.Lock()
	defer b.guard.Unlock()
	return b.Buffer.Write(p)
}

// Without a terminal nothing is drawn, no key is read and what ended is said.
func TestLoadViewWithoutATerminal(t *testing.T) {
	pipe, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	var out lockedBuffer
	v := NewLoad(&out, pipe, Load{Trials: 2})
	if v.keys != nil {
		t.Error("keys are read from a pipe")
	}
	v.Observe(live.Begun{})
	v.Observe(live.Progress{Fraction: 0.5, Done: 7})
	v.applyEvent(v.content.plainLine)
	v.Observe(live.Ended{Record: &record.Record{Failure: "the cellar is flooded"}})
	v.Close()
	v.Close()
	for _, want := range []string{"1 of 2, ", "the cellar is flooded"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it did not say %q: %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("it drew into a pipe: %q", out.String())
	}
}

// fakePauser notes whether it is paused.
type fakePauser struct{ paused bool }

func (p *fakePauser) Pause()  { p.paused = true }
func (p *fakePauser) Resume() { p.paused = false }

// A key pauses and goes on, and ends.
func TestLoadViewKeys(t *testing.T) {
	ended := 0
	var pauser fakePauser
	o, c := Load{Pauser: &pauser, End: func() { ended++ }}, &loadContent{}
	v := newView(&lockedBuffer{}, false, c)
	go v.drawUntilClosed(nil)
	defer v.Close()
	for _, test := range []struct {
		key           byte
		pause, goesOn bool
	}{{'p', true, true}, {'x', true, true}, {'p', false, true}, {ctrlC, false, false}} {
		if more := v.pressKey(test.key, c, &o); more != test.goesOn || c.wantsPause != test.pause || pauser.paused != test.pause {
			t.Errorf("key %q: paused %v, more keys %v", test.key, c.wantsPause, more)
		}
	}
	if ended != 1 || !c.ending {
		t.Errorf("it was ended %d times", ended)
	}
}

// Of a fleet nobody knows how many calls are in flight, and its total grows once a second, which
// is no rate that goes up and down.
func TestLoadViewOfAFleet(t *testing.T) {
	s := &loadContent{}
	at := time.Unix(100, 0)
	s.trialBegins(record.PlannedTrial{}, at)
	for tick := range 12 {
		at = at.Add(250 * time.Millisecond)
		s.progress(live.Progress{Done: 1, Live: &live.Calls{
			SpanNS: 2e9, Ended: 2000, InFlight: live.UnknownInFlight,
			Total: live.Total{Ended: int64(1000 * (tick / 4))},
		}}, at)
	}
	if text := describeTotal(s.now.Live); text != "2,000 ok, 0 failed" {
		t.Errorf("the total is %q", text)
	}
	if line := s.rates.describe(); !strings.HasSuffix(line, " up to 1,000/s, 250ms each") || strings.Contains(line, "▁") {
		t.Errorf("a steady rate is drawn as %q", line)
	}
}

// However long a run is, the line of rates covers all of it, in at most 40 signs.
func TestRateLineCoversTheWholeRun(t *testing.T) {
	var line rateLine
	for report := range 1000 {
		line.add(float64(report), 250*time.Millisecond)
		if len(line.rates) >= maxRates {
			t.Fatalf("%d signs after %d reports", len(line.rates), report)
		}
	}
	if line.each != 32 || line.rates[0] != 15.5 || line.rates[len(line.rates)-1] < 900 {
		t.Errorf("%d reports per sign, rates %v", line.each, line.rates)
	}
}

// The figures are printed below the place where the view was, so it leaves nothing.
func TestLoadViewVanishesWhenItsFiguresFollow(t *testing.T) {
	s, now := shownLoad()
	s.trialEnds(&record.Record{}, now)
	if lines := s.lines(format.Terminal{Width: 80}, now); len(lines) != 0 {
		t.Errorf("it leaves %q", lines)
	}
}
