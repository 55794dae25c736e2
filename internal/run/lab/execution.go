package lab

import (
	"context"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/worker"
)

// An execution carries out a plan, and holds the state that lasts from trial to trial.
type execution struct {
	*Lab
	order []record.PlannedTrial
	into  *record.Run
	queue *queue

	// Tests replace these functions.
	measure       func(ctx context.Context, number int) (*record.Record, error)
	takenByOthers func(ctx context.Context) float64
}

func (l *Lab) execution(plan []scenario.Planned, run *record.Run) (*execution, error) {
	var took time.Duration // of the trials that are done
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		took += time.Duration(r.TookNS)
		l.learn(&r)
	}
	if run.Manifest.WaitedNS == nil {
		run.Manifest.WaitedNS = new(int64)
	}
	queue := newQueue(run, len(plan), took, l.Patience)
	queue.used = l.used
	watch := watchOthers
	if l.Fleet != nil {
		watch = watchNobody
	}
	return &execution{
		Lab: l, order: Order(plan), into: run,
		queue: queue,
		measure: func(ctx context.Context, number int) (*record.Record, error) {
			return l.trial(ctx, number, plan[number], run)
		},
		takenByOthers: watch,
	}, nil
}

// run follows the steps of the queue until all trials are done.
func (e *execution) run(ctx context.Context) error {
	defer func() { e.used = e.queue.used }()
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if e.Remote.Ended() {
			return nil
		}
		next := e.queue.next(time.Now())
		var err error
		switch next.do {
		case measure, repeat:
			err = e.take(ctx, next.trial)
		case look:
			e.wait(ctx)
		case refuse:
			err = e.refuse(next.trial)
		case finish:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take measures a trial, and records it or sets it back. It sets back only trials that the judge
// refuses: they would enter no figure anyway, so no result is preferred over another.
func (e *execution) take(ctx context.Context, number int) error {
	earlier := e.attempts(number)
	e.observe(live.Begun{Trial: e.order[number]})
	r, err := e.measure(ctx, number)
	if err != nil {
		return err
	}
	r.Attempts = earlier
	why, spoiled := isSpoiled(r)
	if spoiled && e.Patience != (Patience{}) && !e.Remote.Ended() {
		if err := e.into.SetBack(*r); err != nil {
			return err
		}
		e.queue.ended(time.Now(), r, true)
		e.observe(live.SetBack{Record: r, Why: why})
		return nil
	}
	e.queue.ended(time.Now(), r, false)
	return e.record(r)
}

// isSpoiled reports whether to measure a trial again, and the check that asks for it: other
// programs spoiled the trial, or (once) it needs the longer warm-up that the check names.
func isSpoiled(r *record.Record) (why record.Check, spoiled bool) {
	if r.Probe != "" { // does not depend on how fast things went
		return why, false
	}
	if why, spoiled = check.SpoiledByMachine(r.Checks); !spoiled && len(r.Attempts) == 0 {
		why, spoiled = check.OpenedTooEarly(r.Checks)
	}
	return why, spoiled
}

// attempts returns a trial's discarded measurements so far.
func (e *execution) attempts(number int) []record.Attempt {
	last := e.queue.setBack(number)
	if last == nil {
		return nil
	}
	why, _ := isSpoiled(last)
	return append(slices.Clone(last.Attempts), record.Attempt{
		Started: last.Started, TookNS: last.TookNS, Check: why.Name, Detail: why.Detail,
	})
}

// refuse records the last measurement of a trial that was always spoiled.
func (e *execution) refuse(number int) error {
	last := e.queue.setBack(number)
	e.queue.leave(number)
	return e.record(last)
}

func (e *execution) record(r *record.Record) error {
	if err := e.into.Append(*r); err != nil {
		return err
	}
	e.observe(live.Ended{Record: r})
	return nil
}

// wait watches the machine for a moment.
func (e *execution) wait(ctx context.Context) {
	e.observe(e.queue.waiting())
	taken := e.takenByOthers(ctx)
	e.queue.looked(time.Now(), taken)
	*e.into.Manifest.WaitedNS += int64(lookFor)
}

// watchOthers returns the share of the CPU time that others take for a moment.
func watchOthers(ctx context.Context) float64 {
	watch := host.StartWatch()
	watchNobody(ctx)
	var seen record.HostState
	watch.Fill(&seen, 0)
	return seen.TakenByOthers()
}

// watchNobody is for a fleet, whose machines are not watched and count as quiet after a time.
func watchNobody(ctx context.Context) float64 {
	select {
	case <-time.After(lookFor):
	case <-ctx.Done():
	}
	return 0
}

// Remote controls a run while it goes on: it sends controls to the client of the running trial.
// Its methods may be called at any time, from any goroutine. Clients ignore unknown controls.
type Remote struct {
	guard  sync.Mutex // guards the fields below
	client worker.End
	ended  bool
	paused bool
}

// End ends the run, and closes the window of the running trial at once. Lab.Run returns nil when
// the trial is recorded. A trial whose window was not open yet is not measured.
func (r *Remote) End() { r.tell(func() worker.Control { r.ended = true; return worker.EndControl }) }

// Pause keeps the clients from sending until Resume. It holds for the trials that follow, too.
func (r *Remote) Pause() {
	r.tell(func() worker.Control { r.paused = true; return worker.PauseControl })
}

// Resume lets the clients send again.
func (r *Remote) Resume() {
	r.tell(func() worker.Control { r.paused = false; return worker.ResumeControl })
}

// Ended reports whether the run was told to end.
func (r *Remote) Ended() bool {
	if r == nil {
		return false
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.ended
}

func (r *Remote) tell(change func() worker.Control) {
	r.guard.Lock()
	defer r.guard.Unlock()
	control := change()
	if r.client != nil {
		_ = r.client.Tell(worker.Order{Control: control}) // a client that has ended needs no control
	}
}

// attach makes client the receiver of the controls, and sends it the ones that it missed. After
// attach(nil) no client receives any.
func (r *Remote) attach(client worker.End) {
	if r == nil {
		return
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	r.client = client
	if client == nil {
		return
	}
	if r.paused {
		_ = client.Tell(worker.Order{Control: worker.PauseControl})
	}
	if r.ended {
		_ = client.Tell(worker.Order{Control: worker.EndControl})
	}
}
