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
	plan  []scenario.PlannedCell
	order []record.PlannedTrial
	into  *record.Run
	queue *trialQueue

	// Tests replace these functions.
	measure       func(ctx context.Context, numbers []int) ([]*record.Record, error)
	takenByOthers func(ctx context.Context) float64
}

func (l *Lab) newExecution(plan []scenario.PlannedCell, run *record.Run) (*execution, error) {
	var took time.Duration // time of the trials that are done
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		took += time.Duration(r.TookNS)
		l.learnWarmUp(&r)
	}
	if run.Manifest.WaitedNS == nil {
		run.Manifest.WaitedNS = new(int64)
	}
	queue := newQueue(run, len(plan), took, l.Patience)
	queue.used = l.used
	e := &execution{Lab: l, plan: plan, order: ManifestOrder(plan), into: run, queue: queue, takenByOthers: measureOthersCPU}
	if l.Fleet != nil {
		e.takenByOthers = waitUnwatched
	}
	e.measure = e.measureBlock
	return e, nil
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
		next := e.queue.nextStep(time.Now())
		var err error
		switch next.do {
		case measurePlanned, repeatSetBack:
			err = e.measureNext(ctx, next.trial)
		case watchMachine:
			e.waitForQuiet(ctx)
		case recordAsSpoiled:
			err = e.recordSpoiled(next.trial)
		case endRun:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// measureNext measures a trial together with the other planned trials of its block.
func (e *execution) measureNext(ctx context.Context, number int) error {
	numbers := e.queue.together(number, func(other int) bool {
		block := e.order[number].Block
		return block != 0 && block == e.order[other].Block
	})
	records, err := e.measure(ctx, numbers)
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := e.recordOrSetBack(r); err != nil {
			return err
		}
	}
	return nil
}

// recordOrSetBack records a trial or lets it wait to be measured again. Only trials that the judge
// leaves out of the figures wait, so this does not prefer good results.
func (e *execution) recordOrSetBack(r *record.Record) error {
	r.Attempts = e.discardedAttempts(r.Trial)
	why, spoiled := isSpoiled(r)
	if spoiled && e.Patience != (Patience{}) && !e.Remote.Ended() {
		if err := e.into.SetBack(*r); err != nil {
			return err
		}
		e.queue.noteTrialEnd(time.Now(), r, true)
		e.observe(live.SetBack{Record: r, Why: why})
		return nil
	}
	e.queue.noteTrialEnd(time.Now(), r, false)
	return e.appendRecord(r)
}

// isSpoiled reports whether a trial must be measured again, and returns the check that says so.
// Either other programs spoiled the trial, or it needs a longer warm-up. The latter counts once.
func isSpoiled(r *record.Record) (why record.Check, spoiled bool) {
	if r.Probe != "" || r.Block != 0 { // it does not depend on how fast things went, or its neighbours disturbed all alike
		return why, false
	}
	if why, spoiled = check.SpoiledByMachine(r.Checks); !spoiled && len(r.Attempts) == 0 {
		why, spoiled = check.WindowOpenedTooEarly(r.Checks)
	}
	return why, spoiled
}

// discardedAttempts returns a trial's discarded measurements so far.
func (e *execution) discardedAttempts(number int) []record.Attempt {
	last := e.queue.lastMeasurement(number)
	if last == nil {
		return nil
	}
	why, _ := isSpoiled(last)
	return append(slices.Clone(last.Attempts), record.Attempt{
		Started: last.Started, TookNS: last.TookNS, Check: why.Name, Detail: why.Detail,
	})
}

// recordSpoiled records the last measurement of a trial whose measurements were all spoiled.
func (e *execution) recordSpoiled(number int) error {
	last := e.queue.lastMeasurement(number)
	e.queue.removeTrial(number)
	return e.appendRecord(last)
}

func (e *execution) appendRecord(r *record.Record) error {
	if err := e.into.Append(*r); err != nil {
		return err
	}
	e.observe(live.Ended{Record: r})
	return nil
}

// waitForQuiet measures for one look how much CPU time other programs take.
func (e *execution) waitForQuiet(ctx context.Context) {
	e.observe(e.queue.waitingEvent())
	taken := e.takenByOthers(ctx)
	e.queue.noteLook(time.Now(), taken)
	*e.into.Manifest.WaitedNS += int64(lookDuration)
}

// measureOthersCPU returns the share of the CPU time that other programs take during one look.
func measureOthersCPU(ctx context.Context) float64 {
	watch := host.StartActivityWatch()
	waitUnwatched(ctx)
	var seen record.HostState
	watch.FillHostState(&seen, 0)
	return seen.TakenByOthers()
}

// waitUnwatched waits for one look and returns 0. A fleet uses it: its machines are not watched.
func waitUnwatched(ctx context.Context) float64 {
	select {
	case <-time.After(lookDuration):
	case <-ctx.Done():
	}
	return 0
}

// A RunControls controls a running run: it sends controls to the client of the running trial.
// Its methods may be called at any time, from any goroutine. Clients ignore unknown controls.
type RunControls struct {
	guard   sync.Mutex // guards the fields below
	clients []worker.TrialEnd
	ended   bool
	paused  bool
}

// End ends the run, and closes the window of the running trial at once. Lab.Run returns nil when
// the trial is recorded. If the trial's window was not open yet, the trial is not measured.
func (r *RunControls) End() {
	r.sendControl(func() worker.Control { r.ended = true; return worker.EndControl })
}

// Pause keeps the clients from sending until Resume, also in the following trials.
func (r *RunControls) Pause() {
	r.sendControl(func() worker.Control { r.paused = true; return worker.PauseControl })
}

// Resume lets the clients send again.
func (r *RunControls) Resume() {
	r.sendControl(func() worker.Control { r.paused = false; return worker.ResumeControl })
}

// Ended reports whether End was called.
func (r *RunControls) Ended() bool {
	if r == nil {
		return false
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.ended
}

func (r *RunControls) sendControl(change func() worker.Control) {
	r.guard.Lock()
	defer r.guard.Unlock()
	control := change()
	for _, client := range r.clients {
		_ = client.SendControl(worker.ControlOrder{Control: control}) // a client that has ended needs no control
	}
}

// attachClient makes client a receiver of the controls, until detach, and sends it those that it missed.
func (r *RunControls) attachClient(client worker.TrialEnd) {
	if r == nil {
		return
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	r.clients = append(r.clients, client)
	if r.paused {
		_ = client.SendControl(worker.ControlOrder{Control: worker.PauseControl})
	}
	if r.ended {
		_ = client.SendControl(worker.ControlOrder{Control: worker.EndControl})
	}
}

func (r *RunControls) detachClient(client worker.TrialEnd) {
	if r == nil {
		return
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	r.clients = slices.DeleteFunc(r.clients, func(one worker.TrialEnd) bool { return one == client })
}
