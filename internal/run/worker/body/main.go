package body

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
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
