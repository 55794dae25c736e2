package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/lab"
)

// loadViewOptions say what a view of a load shows, and what its keys do.
type loadViewOptions struct {
	title    string        // what is called
	duration time.Duration // of the window; 0: it is bounded by requests
	trials   int
	// remote is what p pauses; nil: p does nothing.
	remote *lab.Remote
	// end is what q and Ctrl-C do; nil: interruptSelf, which is the signal that Ctrl-C is
	// elsewhere.
	end func()
	// ending is closed when the run was told to end, as the Done of a context that a signal
	// ends; nil: the view is never told. The terminal is then as it was before the view.
	ending <-chan struct{}
}

// loadView shows a load while it runs: on a terminal a few lines that redraw themselves,
// otherwise a line a second. It needs a lab that has Live. close must be called, in a defer,
// since it gives the terminal back.
type loadView struct {
	to    io.Writer
	draws bool // on a terminal
	keys  *keys
	quit  chan struct{}
	ended chan struct{}

	guard  sync.Mutex // of what follows
	state  loadState
	lines  int  // on the screen
	closed bool // by close
}

var _ progress = (*loadView)(nil)

// newLoadView begins to show. Keys are read from stdin if that is a terminal, as w has
// to be.
func newLoadView(w io.Writer, stdin *os.File, o loadViewOptions) *loadView {
	v := &loadView{to: w, draws: terminalOf(w).Width > 0, quit: make(chan struct{}), ended: make(chan struct{})}
	v.state = loadState{title: o.title, duration: o.duration, trials: o.trials}
	if o.end == nil {
		o.end = interruptSelf
	}
	if v.draws {
		v.keys = readKeys(stdin, o.ending, func(key byte) bool { return v.press(key, o) })
		v.change(func(s *loadState) { s.keys = v.keys != nil })
	}
	go v.follow(o.ending) // ends with close
	return v
}

// press does what a key stands for, and reports whether others may follow.
func (v *loadView) press(key byte, o loadViewOptions) bool {
	switch key {
	case 'p', ' ':
		if o.remote == nil {
			return true
		}
		v.change(func(s *loadState) {
			if s.wantsPause = !s.wantsPause; s.wantsPause {
				o.remote.Pause()
			} else {
				o.remote.Resume()
			}
		})
	case 'q', ctrlC:
		v.change(func(s *loadState) { s.ending = true })
		o.end()
		return false
	}
	return true
}

// plainEvery is the time between two lines where there is no terminal.
const plainEvery = time.Second

func (v *loadView) follow(ending <-chan struct{}) {
	defer close(v.ended)
	every := redrawEvery
	if !v.draws {
		every = plainEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if v.draws {
			v.draw()
		}
		select {
		case <-tick.C:
			if !v.draws {
				v.say()
			}
		case <-ending:
			ending = nil
			v.change(func(s *loadState) { s.ending = true })
		case <-v.quit:
			return
		}
	}
}

// draw writes the view over the one before. A raw terminal begins a line where the last
// one ended, if it is not told to return.
func (v *loadView) draw() {
	v.guard.Lock()
	defer v.guard.Unlock()
	lines := v.state.lines(terminalOf(v.to), time.Now())
	_, _ = io.WriteString(v.to, strings.ReplaceAll(frame(lines, v.lines), "\n", "\r\n"))
	v.lines = len(lines)
}

// say writes what there is now as a line.
func (v *loadView) say() {
	v.guard.Lock()
	defer v.guard.Unlock()
	if line := v.state.plain(time.Now()); line != "" {
		fmt.Fprintln(v.to, line)
	}
}

func (v *loadView) change(state func(*loadState)) {
	v.guard.Lock()
	defer v.guard.Unlock()
	state(&v.state)
}

// close shows the last state and gives the terminal back. A second call does nothing.
func (v *loadView) close() {
	v.guard.Lock()
	first := !v.closed
	v.closed = true
	v.guard.Unlock()
	if !first {
		return
	}
	close(v.quit)
	<-v.ended
	v.keys.close()
	if v.draws {
		v.draw()
	}
}

func (v *loadView) TrialBegins(record.PlannedTrial) {
	v.change(func(s *loadState) { s.begins(time.Now()) })
}

func (v *loadView) TrialProgress(_ int, p lab.Progress) {
	v.change(func(s *loadState) { s.take(p, time.Now()) })
}

func (v *loadView) TrialEnds(_ int, r *record.Record) {
	v.change(func(s *loadState) { s.ends(outcome(r)) })
	v.sayOutcome(outcome(r))
}

func (v *loadView) TrialSetBack(r *record.Record, why record.Check) {
	v.change(func(s *loadState) { s.last = setBackForLater(r, why) })
	v.sayOutcome(setBackForLater(r, why))
}

// sayOutcome says what became of one trial of several, where nothing is drawn.
func (v *loadView) sayOutcome(text string) {
	if !v.draws && v.state.trials > 1 {
		fmt.Fprintln(v.to, text)
	}
}

func (v *loadView) Waits(w lab.Waiting) {
	v.change(func(s *loadState) { s.last = waiting(w) })
}
