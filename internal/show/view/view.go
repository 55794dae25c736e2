// Package view shows a run while it goes on.
//
//	events of a run ──> View      on a terminal, in lines that redraw themselves;
//	                              elsewhere in plain lines
//	                ──> Page      in a browser: the report, written again between trials
//	                ──> Metrics   for Prometheus: counters and gauges of a load
//
// View, Page and Metrics take the same events. The view of a scenario's trials (NewRun) and the
// view of a service's load (NewLoad) differ in their content. View draws it under a lock.
package view

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/show/report/format"
)

const (
	// redrawInterval is long because drawing uses CPU time on the machine under test.
	redrawInterval = 500 * time.Millisecond
	// plainInterval is the time between two lines without a terminal.
	plainInterval = time.Second
)

// A View shows a run until Close. Any goroutine may call Observe.
type View struct {
	to    io.Writer
	draws bool // whether the view redraws its lines on a terminal
	keys  *keys
	quit  chan struct{}
	ended chan struct{}

	close   sync.Once
	guard   sync.Mutex // protects the fields below
	content content
	drawn   int // number of lines on the screen
}

// A content holds what a View shows. Methods for events return a line for plain output.
type content interface {
	trialBegins(trial record.PlannedTrial, now time.Time) string
	progress(p live.Progress, now time.Time) string
	trialEnds(r *record.Record, now time.Time) string
	plainLine(now time.Time) string    // called once per plainInterval
	endRequested(now time.Time) string // called when the run must end
	lines(terminal format.Terminal, now time.Time) []string
}

func newView(w io.Writer, draws bool, c content) *View {
	return &View{to: w, draws: draws, content: c, quit: make(chan struct{}), ended: make(chan struct{})}
}

// drawUntilClosed draws the view, or prints its lines, until Close. When ending closes, it calls
// the content's endRequested.
func (v *View) drawUntilClosed(ending <-chan struct{}) {
	defer close(v.ended)
	every := redrawInterval
	if !v.draws {
		every = plainInterval
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		v.draw()
		select {
		case <-tick.C:
			v.applyEvent(v.content.plainLine)
		case <-ending:
			ending = nil
			v.applyEvent(v.content.endRequested)
		case <-v.quit:
			return
		}
	}
}

// applyEvent changes the content under the lock. If the view does not draw, it prints the line.
func (v *View) applyEvent(change func(now time.Time) (line string)) {
	v.guard.Lock()
	defer v.guard.Unlock()
	if line := change(time.Now()); line != "" && !v.draws {
		fmt.Fprintln(format.Writer(v.to), line)
	}
}

// draw replaces the drawn view. A failure must not stop the measurement.
func (v *View) draw() {
	if !v.draws {
		return
	}
	v.guard.Lock()
	defer v.guard.Unlock()
	terminal := format.TerminalOf(v.to) // the width may have changed
	lines := v.content.lines(terminal, time.Now())
	_, _ = io.WriteString(v.to, terminal.Encode(redrawText(lines, v.drawn)))
	v.drawn = len(lines)
}

// redrawText returns the text that replaces the lines drawn before. It goes up to the first line,
// writes each new line and erases the rest of the old one, then erases everything below (ECMA-48:
// CUU, EL, ED). A raw terminal needs the carriage return.
func redrawText(lines []string, before int) string {
	var text strings.Builder
	text.WriteByte('\r')
	if before > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", before)
	}
	for _, line := range lines {
		text.WriteString(line + "\x1b[K\r\n")
	}
	text.WriteString("\x1b[J")
	return text.String()
}

// Observe shows an event of the run.
func (v *View) Observe(e live.Event) {
	v.applyEvent(func(now time.Time) (line string) {
		switch e := e.(type) {
		case live.Begun:
			return v.content.trialBegins(e.Trial, now)
		case live.Progress:
			return v.content.progress(e, now)
		case live.Ended:
			return v.content.trialEnds(e.Record, now)
		}
		return ""
	})
}

// Close draws the last state and restores the terminal. It may be called twice.
func (v *View) Close() {
	v.close.Do(func() {
		close(v.quit)
		<-v.ended
		v.keys.close()
		v.draw()
	})
}

// styledLine returns the text as one line that fits the terminal.
func styledLine(text string, style format.Style, terminal format.Terminal) string {
	line := []rune(strings.ReplaceAll(text, "\n", " "))
	return format.Painter(terminal.Colour)(style, string(line[:min(len(line), terminal.Width)]))
}

func progressBar(fraction float64) string {
	const cells = 24
	full := min(cells, int(fraction*cells))
	return "[" + strings.Repeat("■", full) + strings.Repeat("·", cells-full) + "]"
}

func describeTrial(r *record.Record) string {
	name := fmt.Sprintf("%s (repeat %d)", r.Cell.Key(), r.Repeat)
	if r.Cell.Stack == record.ServiceStack { // its requests have slashes, as keys have
		name = fmt.Sprintf("%s, %s (run %d)", cmp.Or(r.Cell.Version(), r.Cell.Workload), words.Clients(r.Cell.Clients), r.Repeat)
	}
	switch {
	case r.Failure != "":
		return name + ": failed: " + r.Failure
	case !r.Valid():
		check := r.FirstInvalid()
		return name + ": invalid: " + check.Name + ", " + check.Detail
	}
	mean := time.Duration(r.Service.Sum / max(1, r.Service.Count))
	return fmt.Sprintf("%s: %.0f requests/s, mean %v", name, r.ThroughputPerSecond(), mean.Round(100*time.Nanosecond))
}

// ctrlC is the byte of Ctrl-C on a raw terminal (ASCII's ETX), where it sends no signal.
const ctrlC = 3

// keys reads single keys from a terminal in raw mode.
type keys struct {
	terminal *os.File
	before   *term.State
	restore  sync.Once
	quit     chan struct{}
	ended    chan struct{}
}

// keyPollInterval is the poll interval for keys. A blocking read could not be cancelled.
const keyPollInterval = 50 * time.Millisecond

// readKeys calls press for each key until it returns false, or until ending is closed.
func readKeys(from *os.File, ending <-chan struct{}, press func(byte) bool) *keys {
	if from == nil || !term.IsTerminal(int(from.Fd())) {
		return nil
	}
	before, err := term.MakeRaw(int(from.Fd()))
	if err != nil {
		return nil // without a terminal there are no keys
	}
	k := &keys{terminal: from, before: before, quit: make(chan struct{}), ended: make(chan struct{})}
	go k.read(ending, press) // ends when close is called, or earlier
	return k
}

func (k *keys) read(ending <-chan struct{}, press func(byte) bool) {
	defer close(k.ended)
	defer k.restoreTerminal() // even after a panic
	var key [1]byte
	for {
		select {
		case <-k.quit:
			return
		case <-ending:
			return
		default:
		}
		ready, err := system.WaitForInput(k.terminal, keyPollInterval)
		if err != nil {
			return
		}
		if !ready {
			continue
		}
		n, err := k.terminal.Read(key[:])
		if err != nil || n == 0 {
			return // the terminal was closed
		}
		if key[0] == 'q' || key[0] == ctrlC {
			k.restoreTerminal() // before a signal can end the program
		}
		if !press(key[0]) {
			return
		}
	}
}

func (k *keys) restoreTerminal() {
	k.restore.Do(func() { _ = term.Restore(int(k.terminal.Fd()), k.before) })
}

func (k *keys) close() {
	if k == nil {
		return
	}
	close(k.quit)
	<-k.ended
}

// interruptSelf does the same as Ctrl-C on a terminal that is not raw.
func interruptSelf() { _ = system.Interrupt() }
