package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/record"
)

// errInputEnded is why a worker stops that is no longer wanted.
var errInputEnded = errors.New("standard input ended: the worker is no longer wanted")

// Main is a worker's whole life: it reads a spec, becomes the server or client
// that it describes, and returns when that is done or the input ends. What goes
// wrong is both an event and the returned error.
func Main(ctx context.Context, input io.Reader, output io.Writer) error {
	events := &emitter{encoder: json.NewEncoder(output)}
	err := serveSpec(ctx, input, events)
	if err != nil {
		return errors.Join(err, events.emit(Event{Event: "error", Error: &Failure{Message: err.Error()}}))
	}
	return nil
}

func serveSpec(ctx context.Context, input io.Reader, events *emitter) error {
	reader := bufio.NewReader(input)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the spec, a line of JSON, from standard input: %w", err)
	}
	spec, err := ParseSpec(line)
	if err != nil {
		return err
	}
	setRuntime(spec.Profile)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the input, or with the process
		_, _ = io.Copy(io.Discard, reader)
		cancel(errInputEnded)
	}()
	if spec.Role == ServerRole {
		return runServer(ctx, spec, events)
	}
	return runClient(ctx, spec, events)
}

// setRuntime sets what a worker sets of Go's runtime.
func setRuntime(profile string) {
	limitMemory()
	probe.SampleAllocations(profile == profileAllocations)
}

// profileAllocations is what a spec's profile may be.
const profileAllocations = "allocations"

// watchAllocations counts where they are asked for. The counting is ended by calling
// what is returned, which returns nil where there is none.
func (s *Spec) watchAllocations() (stop func() *record.Allocations) {
	if s.Profile != profileAllocations {
		return func() *record.Allocations { return nil }
	}
	return probe.WatchAllocations().Stop
}

// emitter prints events, whole lines each.
type emitter struct {
	guard   sync.Mutex
	encoder *json.Encoder
}

func (e *emitter) emit(event Event) error {
	e.guard.Lock()
	defer e.guard.Unlock()
	return e.encoder.Encode(event)
}

func (e *emitter) ready(r Ready) error {
	r.Contract, r.PID = Contract, os.Getpid()
	if r.Runtime == "" { // else it is another program that serves
		r.Runtime, r.GoMaxProcs = runtime.Version(), runtime.GOMAXPROCS(0)
	}
	return e.emit(Event{Event: "ready", Ready: &r})
}
