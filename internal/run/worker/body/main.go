package body

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
)

// errInputEnded is the cause of the cancellation when a worker is no longer wanted.
var errInputEnded = errors.New("standard input ended: the worker is no longer wanted")

// Main runs a worker: it reads a spec, runs the server or client that it describes,
// and returns when that is done or the input ends. It reports an error both as an
// event and as its result.
func Main(ctx context.Context, input io.Reader, output io.Writer) error {
	events := &emitter{encoder: json.NewEncoder(output)}
	err := serveSpec(ctx, input, events)
	if err != nil {
		return errors.Join(err, events.emit(worker.Event{Event: "error", Error: &worker.Failure{Message: err.Error()}}))
	}
	return nil
}

func serveSpec(ctx context.Context, input io.Reader, events *emitter) error {
	reader := bufio.NewReader(input)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the spec (one line of JSON) from standard input: %w", err)
	}
	parsed, err := worker.ParseSpec(line)
	if err != nil {
		return err
	}
	spec := &task{*parsed}
	switch spec.Role {
	case worker.SentinelRole:
		return runSentinel(spec, reader, events)
	case worker.CapabilitiesRole:
		return events.emit(worker.Event{Event: "capabilities", Capabilities: capabilities()})
	}
	setRuntime(spec.Probe)
	if err := spec.setVariantsRuntime(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	controls := &load.Controls{}
	go func() { // ends with the input, or with the process
		readControls(reader, controls)
		cancel(errInputEnded)
	}()
	if spec.Role == worker.ServerRole {
		return runServer(ctx, spec, events)
	}
	return runClient(ctx, spec, controls, events)
}

// runSentinel watches until the input ends.
func runSentinel(spec *task, input io.Reader, events *emitter) error {
	ended := make(chan struct{})
	go func() { // ends with the input, or with the process
		_, _ = io.Copy(io.Discard, input)
		close(ended)
	}()
	if err := events.ready(worker.Ready{}); err != nil {
		return err
	}
	return events.emit(worker.Event{Event: "result", Result: &worker.Result{Watched: probe.RunSentinels(spec.Watch, ended)}})
}

// setRuntime applies a worker's settings of Go's runtime.
func setRuntime(seen string) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(worker.MemoryLimit)
	}
	probe.SampleAllocations(seen == record.ProbeAllocations)
}

// setVariantsRuntime applies what the variant says of Go's runtime, and checks what it cannot
// apply.
func (s *task) setVariantsRuntime() error {
	v, err := scenario.ParseVariant(s.Stack)
	if err != nil {
		return err
	}
	if percent := catalog.Collector(v); percent != 0 {
		debug.SetGCPercent(percent)
	}
	if limit := catalog.SmallObject(v); limit != 0 && limit != rebuild.SmallObject() {
		return fmt.Errorf("variant %s: this program's runtime has a limit of %d bytes: it was not rebuilt", v, rebuild.SmallObject())
	}
	return nil
}

// watchAllocations starts counting allocations if the spec asks for it. stop ends
// that and returns the counts, or nil without counting.
func (s *task) watchAllocations() (stop func() *record.Allocations) {
	if s.Probe != record.ProbeAllocations {
		return func() *record.Allocations { return nil }
	}
	return probe.WatchAllocations().Stop
}

// profileCPU samples the CPU time if the spec asks for it. stop ends that and returns the
// stacks, or nil without sampling.
func (s *task) profileCPU() (stop func() (*record.Stacks, error), _ error) {
	if !s.ProfileCPU {
		return func() (*record.Stacks, error) { return nil, nil }, nil
	}
	profile, err := probe.StartCPUProfile()
	if err != nil {
		return nil, err
	}
	return profile.Stop, nil
}

// emitter prints each event as one whole line.
type emitter struct {
	guard   sync.Mutex
	encoder *json.Encoder
}

func (e *emitter) emit(event worker.Event) error {
	e.guard.Lock()
	defer e.guard.Unlock()
	return e.encoder.Encode(event)
}

func (e *emitter) ready(r worker.Ready) error {
	r.Contract, r.PID = worker.Contract, cmp.Or(r.PID, os.Getpid())
	if r.Runtime == "" { // otherwise another program serves or calls
		r.Runtime, r.GoMaxProcs = runtime.Version(), runtime.GOMAXPROCS(0)
	}
	return e.emit(worker.Event{Event: "ready", Ready: &r})
}
