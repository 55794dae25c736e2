package lab

import (
	"cmp"
	"context"
	"sync"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/service/reach"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

const (
	// answerSoon is the wait for a target's answer before looking what listens there.
	answerSoon = 1500 * time.Millisecond
	// answerLate is the wait if the listener may speak the wanted protocol.
	answerLate = 5 * time.Second
	// triesOfTarget is the number of calls of a target that fails at once: a target that fails
	// now and then can be measured.
	triesOfTarget = 3
)

// TryTargets calls each server that is a target of the plan once, and returns the first
// fault in the plan's order, or nil. It ends when ctx ends.
func (l *Lab) TryTargets(ctx context.Context, plan []scenario.Planned) *reach.Fault {
	var targets []*trial
	seen := map[string]bool{}
	for _, planned := range plan {
		t := &trial{lab: l, planned: planned}
		if name := planned.Cell.Variant.String(); t.target() != "" && !seen[name] {
			seen[name] = true
			targets = append(targets, t)
		}
	}
	faults := make([]*reach.Fault, len(targets))
	var trying sync.WaitGroup
	for i, t := range targets {
		trying.Go(func() { faults[i] = t.tryTarget(ctx) })
	}
	trying.Wait()
	return cmp.Or(faults...)
}

// tryTarget calls the trial's target. Where it does not answer soon, and may yet be right,
// it is given longer.
func (t *trial) tryTarget(ctx context.Context) *reach.Fault {
	work, _ := workloads.Work(t.planned.Cell.Workload)
	err := t.callTarget(ctx, answerSoon+work)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	fault := &reach.Fault{Variant: t.planned.Cell.Variant, Address: t.target(), Found: reach.LookAt(ctx, t.target())}
	if isLate(err) && fault.MayBeRight() {
		if err = t.callTarget(ctx, answerLate+work); err == nil || ctx.Err() != nil {
			return nil
		}
	}
	fault.Err, fault.Class = err, failure.Of(err)
	return fault
}

// callTarget makes one call, and another if that fails before its time is over.
func (t *trial) callTarget(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	spec := t.spec(worker.ClientRole, t.target())
	spec.Probe = ""
	spec.Client = &worker.ClientSpec{
		Clients: 1, Connection: t.connection().String(), Seed: t.lab.seed(1),
		RootPEM: string(t.lab.Trust.RootPEM), SkipVerify: t.lab.Trust.SkipVerify,
	}
	var err error
	for range triesOfTarget {
		if err = body.Try(ctx, &spec); err == nil || ctx.Err() != nil || failure.Of(err) == failure.Refused {
			return err
		}
	}
	return err
}

// isLate reports whether a call failed only because there was no answer yet.
func isLate(err error) bool {
	class := failure.Of(err)
	return class == failure.Deadline || class == failure.HandshakeTimeout
}
