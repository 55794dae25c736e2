package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/show/report"
)

// progress shows how a run goes: a live view on a terminal, and otherwise a plain
// line a trial.
type progress interface {
	lab.QueueObserver
	close()
}

func newProgress(w io.Writer, title string, e *estimate) progress {
	if terminalOf(w).Width > 0 {
		return newLive(w, title, e)
	}
	return &plain{w: w, estimate: e}
}

// plain prints a line when a trial ends.
type plain struct {
	w        io.Writer
	estimate *estimate
	said     time.Time // that the run waits
}

func (p *plain) TrialBegins(record.PlannedTrial) { p.estimate.begins() }
func (p *plain) TrialProgress(int, lab.Progress) {}
func (p *plain) close()                          {}

func (p *plain) TrialEnds(number int, r *record.Record) {
	p.estimate.ends(number)
	left := fmt.Sprintf("about %v left", p.estimate.remaining().Round(time.Second))
	if p.estimate.done == p.estimate.all() {
		left = fmt.Sprintf("took %v", time.Since(p.estimate.began).Round(time.Second))
	}
	fmt.Fprintf(p.w, "%d/%d %s, %s\n", p.estimate.done, p.estimate.all(), outcome(r), left)
}

func (p *plain) TrialSetBack(r *record.Record, why record.Check) {
	p.estimate.measured(r.Trial)
	fmt.Fprintln(p.w, setBackForLater(r, why))
}

// sayWaitsEvery keeps the lines of a run that waits few.
const sayWaitsEvery = 10 * time.Second

func (p *plain) Waits(w lab.Waiting) {
	if now := time.Now(); now.Sub(p.said) >= sayWaitsEvery {
		p.said = now
		fmt.Fprintln(p.w, waiting(w))
	}
}

func setBackForLater(r *record.Record, why record.Check) string {
	return fmt.Sprintf("set back, to be measured again: %s (repeat %d): %s", r.Cell.Key(), r.Repeat, why.Detail)
}

func waiting(w lab.Waiting) string {
	return fmt.Sprintf("waiting for a quiet machine: %s left, %v of %v patience used",
		trialsInWords(w.Trials), w.Used.Round(time.Second), w.Patience.Round(time.Second))
}

// outcome describes a trial in a few words.
func outcome(r *record.Record) string {
	name := fmt.Sprintf("%s (repeat %d)", r.Cell.Key(), r.Repeat)
	switch {
	case r.Failure != "":
		return name + ": failed: " + r.Failure
	case !r.Valid():
		check := r.FirstInvalid()
		return name + ": invalid: " + check.Name + ", " + check.Detail
	default:
		mean := time.Duration(0)
		if r.Service.Count > 0 {
			mean = time.Duration(r.Service.Sum / r.Service.Count)
		}
		return fmt.Sprintf("%s: %.0f requests/s, mean %v", name, r.ThroughputPerSecond(), mean.Round(100*time.Nanosecond))
	}
}

func trialsInWords(n int) string {
	if n == 1 {
		return "1 trial"
	}
	return fmt.Sprintf("%d trials", n)
}

// redrawEvery is long, because drawing costs CPU on the machine under test.
const redrawEvery = 500 * time.Millisecond

// live shows the run on a terminal, a few lines that redraw themselves. It
// takes no input: Ctrl-C stays the signal that it is.
type live struct {
	to       io.Writer
	estimate *estimate
	quit     chan struct{}
	ended    chan struct{}

	guard sync.Mutex // of what follows
	view  liveView
	lines int // on the screen
}

func newLive(w io.Writer, title string, e *estimate) *live {
	l := &live{
		to: w, estimate: e, quit: make(chan struct{}), ended: make(chan struct{}),
		view: liveView{title: title, trials: e.all(), done: e.done, ends: time.Now().Add(e.remaining()), sparks: newSparks(e.plan)},
	}
	go l.redraw() // ends with close
	return l
}

func (l *live) redraw() {
	defer close(l.ended)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		l.draw()
		select {
		case <-tick.C:
		case <-l.quit:
			l.draw()
			return
		}
	}
}

// draw writes the view over the one before. A view that cannot be drawn is no
// reason to stop measuring.
func (l *live) draw() {
	l.guard.Lock()
	defer l.guard.Unlock()
	terminal := terminalOf(l.to) // its width may have changed
	lines := l.view.lines(terminal)
	_, _ = io.WriteString(l.to, frame(lines, l.lines))
	l.lines = len(lines)
}

// frame is what writes lines over so many before: to the first of them, then each
// new line and the end of what stood there, then all that is below (ECMA-48: CUU,
// EL, ED).
func frame(lines []string, before int) string {
	var text strings.Builder
	text.WriteByte('\r')
	if before > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", before)
	}
	for _, line := range lines {
		text.WriteString(line + "\x1b[K\n")
	}
	text.WriteString("\x1b[J")
	return text.String()
}

// change lets a function change the view, which is drawn later.
func (l *live) change(view func(*liveView)) {
	l.guard.Lock()
	defer l.guard.Unlock()
	view(&l.view)
}

func (l *live) TrialBegins(trial record.PlannedTrial) {
	l.estimate.begins()
	l.change(func(v *liveView) {
		v.cell, v.now, v.waiting = fmt.Sprintf("%s (repeat %d)", trial.Cell, trial.Repeat), lab.Progress{}, ""
	})
}

func (l *live) TrialProgress(_ int, p lab.Progress) { l.change(func(v *liveView) { v.now = p }) }

func (l *live) TrialEnds(number int, r *record.Record) {
	l.estimate.ends(number)
	left := l.estimate.remaining()
	l.change(func(v *liveView) {
		v.done, v.last, v.took = l.estimate.done, outcome(r), time.Since(l.estimate.began)
		if !r.Valid() {
			v.invalid++
		}
		v.ends = time.Now().Add(left)
		v.sparks.take(r)
	})
}

func (l *live) TrialSetBack(r *record.Record, why record.Check) {
	l.estimate.measured(r.Trial)
	l.change(func(v *liveView) { v.last = setBackForLater(r, why) })
}

func (l *live) Waits(w lab.Waiting) {
	l.change(func(v *liveView) { v.waiting = waiting(w) })
}

func (l *live) close() {
	close(l.quit)
	<-l.ended
}

// liveView is the state of the view.
type liveView struct {
	title   string // empty: what is measured has been announced
	trials  int
	done    int
	invalid int
	cell    string
	now     lab.Progress
	waiting string // for a quiet machine, in words; empty: a trial runs
	last    string
	ends    time.Time // as estimated
	took    time.Duration
	sparks  *sparks
}

// viewTitle is what a view has above it: which look is measured. What the run is was
// announced, and stands above the view already.
func viewTitle(u *record.Until) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("look %d of at most %d", u.Begun, len(u.Looks))
}

// lines are those of the view, none wider than the terminal.
func (v *liveView) lines(terminal report.Terminal) []string {
	const bold, faint = "1", "2" // of SGR
	var lines []string
	if v.title != "" {
		lines = append(lines, styled(v.title, bold, terminal))
	}
	lines = append(lines, styled(fmt.Sprintf("%s %d of %d trials%s, %s", v.bar(), v.done, v.trials, v.refused(), v.left()), "", terminal))
	if v.done < v.trials {
		lines = append(lines, styled("now   "+cmp.Or(v.waiting, v.cell+v.state()), "", terminal))
	}
	if v.last != "" {
		lines = append(lines, styled("last  "+v.last, faint, terminal))
	}
	if v.done == v.trials || v.sparks == nil {
		return lines // the table follows
	}
	for _, line := range v.sparks.lines(terminal.Width) {
		lines = append(lines, styled(line, faint, terminal))
	}
	return lines
}

// styled is the text as one line of the terminal.
func styled(text, style string, terminal report.Terminal) string {
	line := []rune(strings.ReplaceAll(text, "\n", " "))
	text = string(line[:min(len(line), terminal.Width)])
	if style == "" || !terminal.Colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[m"
}

func (v *liveView) bar() string {
	const cells = 24
	full := 0
	if v.trials > 0 {
		full = int((float64(v.done) + v.now.Fraction) / float64(v.trials) * cells)
	}
	full = min(cells, full)
	return "[" + strings.Repeat("■", full) + strings.Repeat("·", cells-full) + "]"
}

func (v *liveView) refused() string {
	if v.invalid == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d invalid)", v.invalid)
}

func (v *liveView) left() string {
	if v.done == v.trials {
		return fmt.Sprintf("took %v", v.took.Round(time.Second))
	}
	return fmt.Sprintf("about %v left", max(0, time.Until(v.ends)).Round(time.Second))
}

func (v *liveView) state() string {
	switch {
	case v.now.Done == 0:
		return ": starting"
	case v.now.Warming:
		return fmt.Sprintf(": warming up, %d requests", v.now.Done)
	default:
		return fmt.Sprintf(": %.0f %%, %d requests", 100*v.now.Fraction, v.now.Done)
	}
}
