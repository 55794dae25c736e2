package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/worker"
)

// A remote is a worker on an agent's machine. Its results are on the controller's clock.
type remote struct {
	controller *Controller
	on         *leasedAgent
	name       string
	spec       worker.Spec
	offsetNS   int64 // of the agent's clock
	onProgress func(live.Progress)
	onInterval func(worker.Interval)
	parts      assembly // of messages that must not be lost; used by the goroutine that receives them

	ready, result, ended chan struct{} // closed when the message has come

	guard     sync.Mutex // guards the fields below
	asReady   worker.Ready
	measured  worker.Result
	intervals []worker.Interval
	last      ended
	failure   error
}

var _ worker.End = (*remote)(nil)

// startOn has an agent start a worker.
func (c *Controller) startOn(ctx context.Context, h *leasedAgent, hash string, offsetNS int64, l worker.Launch) (*remote, error) {
	c.guard.Lock()
	c.names++
	r := &remote{
		controller: c, on: h, name: fmt.Sprintf("w%d", c.names), spec: l.Spec, offsetNS: offsetNS,
		onProgress: l.OnProgress, onInterval: l.OnInterval,
		ready: make(chan struct{}), result: make(chan struct{}), ended: make(chan struct{}),
	}
	c.ends[r.key()] = r
	c.guard.Unlock()
	a, err := c.send(ctx, h, order{Do: start, Worker: r.name, Program: hash, Spec: &l.Spec})
	if err != nil && a.Refused == "" {
		r.Kill() // it may have started, and would still run beside the next trial
	}
	if err != nil {
		r.forget()
		return nil, err
	}
	return r, nil
}

func (r *remote) key() string { return r.on.Name + "/" + r.name }

// forget stops receiving messages about the worker.
func (r *remote) forget() {
	r.controller.guard.Lock()
	defer r.controller.guard.Unlock()
	delete(r.controller.ends, r.key())
}

// take handles a message of the agent. One goroutine calls it for messages that may be lost, and
// another one for messages that must not be lost.
func (r *remote) take(t workerEvent) {
	if t.Interval != nil && r.onInterval != nil {
		t.Interval.StartNS -= r.offsetNS
		r.onInterval(*t.Interval)
	}
	if t.Progress != nil && r.onProgress != nil {
		r.onProgress(*t.Progress)
	}
	switch {
	case t.Ready != nil:
		r.set(r.ready, func() { r.asReady = *t.Ready })
	case t.Result != nil:
		r.set(r.result, func() {
			r.measured, r.intervals = *t.Result, t.Intervals
			r.measured.Shift(-r.offsetNS)
			for i := range r.intervals {
				r.intervals[i].StartNS -= r.offsetNS
			}
		})
	case t.Ended != nil:
		r.set(r.ended, func() {
			r.last = *t.Ended
			if t.Ended.Failure != "" {
				r.failure = cmp.Or(r.failure, errors.New(t.Ended.Failure))
			}
		})
	}
}

// set calls change and closes the channel, unless it is closed already.
func (r *remote) set(is chan struct{}, change func()) {
	r.guard.Lock()
	defer r.guard.Unlock()
	select {
	case <-is:
	default:
		change()
		close(is)
	}
}

// fail ends the worker for the controller. The process may still run.
func (r *remote) fail(why error) {
	r.set(r.ended, func() { r.failure = why })
}

// await waits until the channel is closed, or the worker has ended.
func (r *remote) await(ctx context.Context, is chan struct{}, what string) error {
	var err error
	select {
	case <-is:
		return nil
	case <-r.ended:
		r.guard.Lock()
		err = cmp.Or(r.failure, fmt.Errorf("%s: its worker ended without the event %s", r.on.Name, what))
		r.guard.Unlock()
	case <-ctx.Done():
		err = fmt.Errorf("%s: no event %s: %w", r.on.Name, what, context.Cause(ctx))
	}
	select {
	case <-is: // it had come, too
		return nil
	default:
		return err
	}
}

// Ready waits until the worker is ready.
func (r *remote) Ready(ctx context.Context) (worker.Ready, error) {
	if err := r.await(ctx, r.ready, "ready"); err != nil {
		return worker.Ready{}, err
	}
	ready := r.asReady
	ready.PID = 0 // the process is not on this machine
	return ready, nil
}

// Result waits for the worker's result. The result includes its machine's readings after the end.
func (r *remote) Result(ctx context.Context) (worker.Result, error) {
	if err := r.await(ctx, r.result, "result"); err != nil {
		return worker.Result{}, err
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	result := r.measured
	if m := r.last.Machine; m != nil && result.Machine == nil {
		for i := range m.Watched {
			m.Watched[i].Shift(-r.offsetNS)
		}
		result.Machine, r.measured.Machine = m, m
	}
	return result, nil
}

// handedOver limits the wait for the last message of a worker that was ordered to end: the worker
// may have samples to hand over.
const handedOver = 2 * time.Minute

// Stop ends the worker's input, and waits until it has ended. It returns its failure, if any.
func (r *remote) Stop() error { return r.stop(context.Background()) }

func (r *remote) stop(ctx context.Context) error {
	defer r.forget()
	select {
	case <-r.ended:
	default:
		ctx, cancel := context.WithTimeout(ctx, handedOver)
		defer cancel()
		if _, err := r.controller.send(ctx, r.on, order{Do: stop, Worker: r.name}); err != nil {
			r.fail(err)
			return err
		}
		if err := r.await(ctx, r.ended, "ended"); err != nil {
			r.fail(err)
			return err
		}
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.failure
}

// Kill ends the worker at once if its agent gets the order; otherwise the lease ends it.
func (r *remote) Kill() {
	defer r.forget()
	select {
	case <-r.ended:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.controller.plan.Lease)
	defer cancel()
	_, _ = r.controller.send(ctx, r.on, order{Do: kill, Worker: r.name})
}

// Tell sends a control, with its instant on the agent's clock.
func (r *remote) Tell(o worker.Order) error {
	if o.AtNS != 0 {
		o.AtNS += r.offsetNS
	}
	_, err := r.controller.send(context.Background(), r.on, order{Do: tell, Worker: r.name, Tell: &o})
	return err
}

// PID returns 0, since the process is on another machine.
func (r *remote) PID() int { return 0 }

// CPU returns 0, since the worker took no CPU time of this machine.
func (r *remote) CPU() time.Duration { return 0 }

// Warnings returns none: the description of the worker's machine shows missing CPUs or priority.
func (r *remote) Warnings() []string { return nil }

// An assembly joins the parts of a message, which come in order.
type assembly struct {
	have []byte
	next int // number of parts so far
}

// mostKeptBytes bounds a message with all its parts.
const mostKeptBytes = 64 << 20

// add adds a part, as in 2/3, and returns the whole after the last.
func (a *assembly) add(part string, data []byte) (whole []byte, done bool, err error) {
	var number, of int
	if _, err := fmt.Sscanf(part, "%d/%d", &number, &of); err != nil || number < 1 || number > of {
		return nil, false, fmt.Errorf("its part %.20q: want one as in 2/3", part)
	}
	if number == 1 {
		*a = assembly{}
	}
	if number != a.next+1 {
		return nil, false, fmt.Errorf("part %d of %d came after part %d", number, of, a.next)
	}
	if len(a.have)+len(data) > mostKeptBytes {
		return nil, false, fmt.Errorf("it is longer than %d MiB", mostKeptBytes>>20)
	}
	a.have, a.next = append(a.have, data...), number
	if number < of {
		return nil, false, nil
	}
	whole = a.have
	*a = assembly{}
	return whole, true, nil
}
