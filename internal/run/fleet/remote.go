package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
)

// A remoteWorker is a worker on an agent's machine. Its results use the controller's clock.
type remoteWorker struct {
	controller *Controller
	on         *leasedAgent
	name       string
	spec       worker.Spec
	offsetNS   atomic.Int64 // the agent's clock minus the controller's clock
	orderedNS  int64        // when the worker was ordered, on the controller's clock
	onProgress func(live.Progress)
	onInterval func(worker.Interval)
	// Only the goroutine that receives the agent's messages uses these.
	parts   messageAssembly
	seen    seenMessages
	samples sampleFile

	ready, result, ended chan struct{} // each is closed when the message with its name has arrived
	steps                chan worker.StepResult

	guard     sync.Mutex // guards the fields below
	asReady   worker.Ready
	measured  worker.Result
	intervals []worker.Interval
	slices    []load.Slice // the client's slices, on the controller's clock
	last      endedMessage
	window    *probe.Span // for the agent's probe, on the agent's clock; nil if unknown
	failure   error
}

var (
	_ worker.TrialEnd   = (*remoteWorker)(nil)
	_ worker.WindowUser = (*remoteWorker)(nil)
)

// startOn orders an agent to start a worker.
func (c *Controller) startOn(ctx context.Context, h *leasedAgent, hash string, offsetNS int64, l worker.Launch) (*remoteWorker, error) {
	c.guard.Lock()
	c.names++
	r := &remoteWorker{
		controller: c, on: h, name: fmt.Sprintf("w%d-%s", c.names, strings.ToLower(nuid.Next())), spec: l.Spec, orderedNS: clock.Now(),
		onProgress: l.OnProgress, onInterval: l.OnInterval, seen: seenMessages{},
		ready: make(chan struct{}), result: make(chan struct{}), ended: make(chan struct{}), steps: make(chan worker.StepResult, 1),
	}
	r.offsetNS.Store(offsetNS)
	if l.Spec.Client != nil && l.Spec.Client.SamplesFile != "" {
		r.samples.path = samplesPath(l.Spec.Client.SamplesFile, h.Name)
	}
	c.ends[r.key()] = r
	c.guard.Unlock()
	a, err := c.sendOrder(ctx, h, controllerOrder{Do: startVerb, Worker: r.name, Program: hash, Spec: &l.Spec})
	if err != nil && a.Refused == "" {
		r.Kill() // the worker may have started, and would then disturb the next trial
	}
	if err != nil {
		r.unregister()
		return nil, err
	}
	return r, nil
}

func (r *remoteWorker) key() string { return r.on.Name + "/" + r.name }

// unregister removes the worker from the controller, which then ignores messages about the worker.
func (r *remoteWorker) unregister() {
	r.samples.discard()
	r.controller.guard.Lock()
	defer r.controller.guard.Unlock()
	delete(r.controller.ends, r.key())
}

// handleEvent handles a message about the worker.
func (r *remoteWorker) handleEvent(t workerEvent) {
	if t.Interval != nil && r.onInterval != nil {
		t.Interval.StartNS -= r.offsetNS.Load()
		r.on.addInterval(t.Interval.Ended, t.Interval.TookNS)
		r.onInterval(*t.Interval)
	}
	if t.Progress != nil && r.onProgress != nil {
		r.onProgress(*t.Progress)
	}
	switch {
	case t.Ready != nil:
		r.setOnce(r.ready, func() { r.asReady = *t.Ready })
	case t.Step != nil:
		(&worker.Result{Client: t.Step.Client}).ShiftClock(-r.offsetNS.Load())
		select {
		case r.steps <- *t.Step:
		default: // the controller waits for one result at a time, so nobody asked for this one
		}
	case t.Result != nil:
		r.setOnce(r.result, func() {
			r.measured, r.intervals = *t.Result, t.Intervals
			r.measured.ShiftClock(-r.offsetNS.Load())
			for i := range r.intervals {
				r.intervals[i].StartNS -= r.offsetNS.Load()
			}
		})
	case t.Ended != nil:
		if sent := t.Ended.Samples; sent != nil {
			if err := r.samples.finish(sent); err != nil {
				t.Ended.Samples, t.Ended.SamplesMissing = nil, err.Error()
			}
		}
		r.setOnce(r.ended, func() {
			r.last = *t.Ended
			if t.Ended.Failure != "" {
				r.failure = cmp.Or(r.failure, errors.New(t.Ended.Failure))
			}
		})
	}
}

// addKept handles a part of a message that must not be lost.
func (r *remoteWorker) addKept(part string, data []byte) {
	whole, done, err := r.parts.addPart(part, data)
	if err == nil && !done {
		return
	}
	var t workerEvent
	if err == nil {
		t, err = decodeWorkerEvent(whole)
	}
	if err != nil {
		r.failWorker(fmt.Errorf("%s: read the agent's message about a worker: %w", r.on.Name, err))
		return
	}
	r.handleEvent(t)
}

// setOnce calls change and closes the channel, unless the channel is already closed.
func (r *remoteWorker) setOnce(is chan struct{}, change func()) {
	r.guard.Lock()
	defer r.guard.Unlock()
	select {
	case <-is:
	default:
		change()
		close(is)
	}
}

// failWorker marks the worker as ended with a failure. The worker's process may still run.
func (r *remoteWorker) failWorker(why error) {
	r.setOnce(r.ended, func() { r.failure = why })
}

// awaitEvent waits until the channel is closed, the worker has ended, or ctx has ended.
func (r *remoteWorker) awaitEvent(ctx context.Context, is chan struct{}, what string) error {
	var err error
	select {
	case <-is:
		return nil
	case <-r.ended:
		r.guard.Lock()
		err = cmp.Or(r.failure, fmt.Errorf("%s: the worker ended without the event %s", r.on.Name, what))
		r.guard.Unlock()
	case <-ctx.Done():
		err = fmt.Errorf("%s: the worker's event %s did not arrive: %w", r.on.Name, what, context.Cause(ctx))
	}
	select {
	case <-is: // the event has also arrived
		return nil
	default:
		return err
	}
}

// stepResult waits for the result of a step that was ordered at an instant.
func (r *remoteWorker) stepResult(ctx context.Context, step load.Step, orderedNS int64) (*worker.ClientResult, error) {
	select {
	case got := <-r.steps:
		if err := r.checkStep(step, &got, orderedNS, clock.Now()); err != nil {
			return nil, err
		}
		if got.Client == nil {
			return nil, fmt.Errorf("%s: %w", r.on.Name, load.ErrNothingMeasured)
		}
		return got.Client, nil
	case <-r.ended:
	case <-ctx.Done():
	}
	return nil, r.awaitEvent(ctx, nil, "step")
}

// Ready waits until the worker is ready.
func (r *remoteWorker) Ready(ctx context.Context) (worker.Ready, error) {
	if err := r.awaitEvent(ctx, r.ready, "ready"); err != nil {
		return worker.Ready{}, err
	}
	ready := r.asReady
	ready.PID = 0 // the worker's process is not on this machine
	if r.spec.Role != worker.ServerRole {
		return ready, nil
	}
	// The address is that of the order. Only the port is the worker's own choice.
	ordered, _, err := net.SplitHostPort(r.spec.Address)
	if err != nil {
		return worker.Ready{}, err
	}
	host, port, err := net.SplitHostPort(ready.Address)
	if err != nil || host != ordered {
		return worker.Ready{}, fmt.Errorf("%s: the server says that it listens on %.80q: the order was %s", r.on.Name, ready.Address, ordered)
	}
	ready.Address = net.JoinHostPort(ordered, port)
	return ready, nil
}

// Result waits for the worker's result. After the worker's end it includes the machine's readings.
func (r *remoteWorker) Result(ctx context.Context) (worker.Result, error) {
	if err := r.awaitEvent(ctx, r.result, "result"); err != nil {
		return worker.Result{}, err
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	result := r.measured
	if err := r.checkFits(&result, clock.Now()); err != nil {
		return worker.Result{}, err
	}
	if m := r.last.Machine; m != nil && result.Machine == nil {
		for i := range m.Watched {
			m.Watched[i].Shift(-r.offsetNS.Load())
		}
		result.Machine, r.measured.Machine = m, m
	}
	most := crowd.ReportLimit{Probe: r.spec.Probe, CPUs: r.on.CPUs, Life: time.Duration(clock.Now()-r.orderedNS) + maxInstantError}
	if err := most.CheckReport(&result); err != nil {
		return worker.Result{}, fmt.Errorf("%s: %w", r.on.Name, err)
	}
	return result, nil
}

// SetWindow sets the window for the agent's probe.
func (r *remoteWorker) SetWindow(window probe.Span) {
	window.BeginNS += r.offsetNS.Load()
	window.EndNS += r.offsetNS.Load()
	r.window = &window
}

// handOverTimeout limits the wait for the last message about a worker after the order to end the
// worker. The agent may have to upload samples first.
const handOverTimeout = 2 * time.Minute

// Stop ends the worker's input and waits for the worker's end. It returns any failure.
func (r *remoteWorker) Stop() error { return r.stop(context.Background()) }

func (r *remoteWorker) stop(ctx context.Context) error {
	defer r.unregister()
	select {
	case <-r.ended:
	default:
		ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
		defer cancel()
		if _, err := r.controller.sendOrder(ctx, r.on, controllerOrder{Do: stopVerb, Worker: r.name, Window: r.window}); err != nil {
			r.failWorker(err)
			return err
		}
		if err := r.awaitEvent(ctx, r.ended, "ended"); err != nil {
			r.failWorker(err)
			return err
		}
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.failure
}

// Kill orders the agent to kill the worker. If the order is lost, the worker ends with the lease.
func (r *remoteWorker) Kill() {
	defer r.unregister()
	select {
	case <-r.ended:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.controller.plan.Lease)
	defer cancel()
	_, _ = r.controller.sendOrder(ctx, r.on, controllerOrder{Do: killVerb, Worker: r.name})
}

// SendControl sends a control, with its instants on the agent's clock, to the worker. It ends a worker
// that cannot be told its slices: the worker would wait for them, and others would measure without it.
func (r *remoteWorker) SendControl(o worker.ControlOrder) error {
	if o.Control == worker.SlicesControl && r.spec.Role == worker.ClientRole {
		r.guard.Lock()
		r.slices = o.Slices
		r.guard.Unlock()
	}
	there := o.ShiftClock(r.offsetNS.Load())
	_, err := r.controller.sendOrder(context.Background(), r.on, controllerOrder{Do: tellVerb, Worker: r.name, Tell: &there})
	if err != nil && o.Control == worker.SlicesControl {
		r.Kill()
		r.failWorker(err)
	}
	return err
}

// PID returns 0, since the worker has no process on this machine.
func (r *remoteWorker) PID() int { return 0 }

// CPU returns 0, since the worker used no CPU time of this machine.
func (r *remoteWorker) CPU() time.Duration { return 0 }

// Warnings returns nil: the record of the agent's machine already shows missing CPUs or priority.
func (r *remoteWorker) Warnings() []string { return nil }

// A messageAssembly joins the parts of a message. The parts must arrive in order.
type messageAssembly struct {
	have     []byte
	received int // number of parts received so far
}

// addPart adds a part numbered as in 2/3. It returns the whole message after the last part.
func (a *messageAssembly) addPart(part string, data []byte) (whole []byte, done bool, err error) {
	var number, of int
	if _, err := fmt.Sscanf(part, "%d/%d", &number, &of); err != nil || number < 1 || number > of {
		return nil, false, fmt.Errorf("message part %.20q: want number/total, as in 2/3", part)
	}
	if number == 1 {
		*a = messageAssembly{}
	}
	if number != a.received+1 {
		return nil, false, fmt.Errorf("message part %d of %d arrived directly after part %d: a part is missing", number, of, a.received)
	}
	if len(a.have)+len(data) > maxKeptMessageBytes {
		return nil, false, fmt.Errorf("the message is longer than %d MiB", maxKeptMessageBytes>>20)
	}
	a.have, a.received = append(a.have, data...), number
	if number < of {
		return nil, false, nil
	}
	whole = a.have
	*a = messageAssembly{}
	return whole, true, nil
}
