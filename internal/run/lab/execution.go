package lab

import (
	"context"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
)

// An execution carries out a plan.
type execution struct {
	*Lab
	plan  []scenario.PlannedCell
	order []record.PlannedTrial
	into  *record.Run

	scatter scatter // what the run's blocks have shown

	measure func(ctx context.Context, numbers []int) ([]*record.Record, error) // tests replace it
}

func (l *Lab) newExecution(plan []scenario.PlannedCell, run *record.Run) (*execution, error) {
	e := &execution{Lab: l, plan: plan, order: ManifestOrder(plan), into: run}
	var block []*record.Record
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		l.learnWarmUp(&r)
		l.learnCalls(&r)
		if len(block) > 0 && r.Block != block[0].Block {
			e.scatter.learn(block)
			block = nil
		}
		if r.Block != 0 {
			block = append(block, &r)
		}
	}
	e.scatter.learn(block)
	e.measure = e.measureBlock
	return e, nil
}

// run measures the trials that have no record, block by block.
func (e *execution) run(ctx context.Context) error {
	for number := range e.order {
		if e.into.Done(number) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if e.Remote.Ended() {
			return nil
		}
		e.ReadAnchor(ctx, e.into, e.shareDone(number))
		numbers, alone := e.blockFrom(number), e.whyAlone(number)
		if alone != "" {
			numbers = numbers[:1]
		}
		records, err := e.measure(ctx, numbers)
		if err != nil {
			return err
		}
		if alone != "" {
			records[0].Warnings = append(records[0].Warnings, "measured without slices: "+alone)
		}
		for _, r := range records {
			if err := e.into.Append(*r); err != nil {
				return err
			}
			e.observe(live.Ended{Record: r})
		}
	}
	return nil
}

// shareDone returns the share of the run that is done before a trial: the share of its trials, or of
// its time if that is less.
func (e *execution) shareDone(number int) float64 {
	done := float64(number) / float64(len(e.order))
	if u := e.into.Manifest.Until; u != nil && u.TimeNS > 0 {
		done = min(done, float64(time.Since(e.began))/float64(u.TimeNS))
	}
	return done
}

// blockFrom returns a trial, and those after it in its block that have no record.
func (e *execution) blockFrom(number int) []int {
	numbers := []int{number}
	for _, other := range e.order[number+1:] {
		if block := e.order[number].Block; block == 0 || other.Block != block {
			break
		}
		if !e.into.Done(other.Trial) {
			numbers = append(numbers, other.Trial)
		}
	}
	return numbers
}

// whyAlone explains why a fleet cannot measure a trial together with those of its block, or returns "".
func (e *execution) whyAlone(number int) string {
	block, trials := e.order[number].Block, 0
	if e.Fleet == nil || block == 0 {
		return ""
	}
	for _, planned := range e.order {
		if planned.Block == block {
			trials++
		}
	}
	return e.Fleet.WhyAlone(trials)
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
