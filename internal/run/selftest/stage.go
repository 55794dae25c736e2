package selftest

import (
	"context"
	"errors"
	"sync"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
)

// A Stage keeps one disturbance up during one trial. Acts use it from one goroutine.
type Stage struct {
	// ctx ends with the trial. Whatever an act starts ends with it.
	ctx context.Context
	// lab runs the trial. Acts may change its placement and its targets.
	lab *lab.Lab
	// directory is the trial's own. A disturber removes it after the trial.
	directory string
	// program is wirelab's own, and its arguments for a disturber.
	program []string
	// cell is the configuration that the trial measures. Acts may change it.
	cell cell

	launching []func(worker.Role, *worker.Launch)
	inWindow  []func()
	undo      []func() error
	acting    sync.WaitGroup // of what inWindow runs
	failed    error          // of what was to be staged as a worker starts

	guard  sync.Mutex // of what follows
	pids   map[worker.Role]int
	opened bool
}

// onLaunch changes how workers are launched.
func (s *Stage) onLaunch(change func(worker.Role, *worker.Launch)) {
	s.launching = append(s.launching, change)
}

// onLaunchOf changes how the worker of a role is launched.
func (s *Stage) onLaunchOf(role worker.Role, change func(*worker.Launch)) {
	s.onLaunch(func(launched worker.Role, l *worker.Launch) {
		if launched == role {
			change(l)
		}
	})
}

// whenWindowOpens calls a function, once, when the window is known to be open: up to a
// progress report, 250 ms, after it was. The stage waits for its end.
func (s *Stage) whenWindowOpens(do func()) { s.inWindow = append(s.inWindow, do) }

// atEnd undoes something when the trial has ended, in reverse order.
func (s *Stage) atEnd(undo func() error) { s.undo = append(s.undo, undo) }

// pid returns the process number of the role's worker, once it has started.
func (s *Stage) pid(role worker.Role) int {
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.pids[role]
}

// launch is the lab's hook.
func (s *Stage) launch(role worker.Role, l *worker.Launch) {
	for _, change := range s.launching {
		change(role, l)
	}
	started := l.OnStart
	l.OnStart = func(pid int) {
		s.guard.Lock()
		s.pids[role] = pid
		s.guard.Unlock()
		if started != nil {
			started(pid)
		}
	}
}

// observe runs the acts that wait for the window.
func (s *Stage) observe(e live.Event) {
	p, is := e.(live.Progress)
	if !is {
		return
	}
	s.guard.Lock()
	first := !p.Warming && !s.opened
	s.opened = s.opened || first
	s.guard.Unlock()
	if !first {
		return
	}
	for _, do := range s.inWindow {
		s.acting.Go(do) // ends by itself, or with ctx
	}
}

// end undoes all that was staged. ctx must have ended.
func (s *Stage) end() error {
	s.acting.Wait()
	var errs []error
	for len(s.undo) > 0 {
		last := len(s.undo) - 1
		errs = append(errs, s.undo[last]())
		s.undo = s.undo[:last]
	}
	return errors.Join(errs...)
}
