package body

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// errInputEnded is the cause of the cancellation when a worker is no longer wanted.
var errInputEnded = errors.New("standard input ended: the worker is no longer wanted")

// Main runs a worker: it reads a spec, runs the server or client of the spec, and returns at its
// end, or when the input ends. It reports an error both as an event and as its result.
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
	switch parsed.Role {
	case worker.SentinelRole:
		return runSentinel(parsed.Watch, reader, events)
	case worker.CapabilitiesRole:
		return events.emit(worker.Event{Event: "capabilities", Capabilities: capabilities()})
	}
	spec, err := newTask(*parsed)
	if err != nil {
		return err
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
func runSentinel(watch []probe.SentinelCPU, input io.Reader, events *emitter) error {
	ended := make(chan struct{})
	go func() { // ends with the input, or with the process
		_, _ = io.Copy(io.Discard, input)
		close(ended)
	}()
	if err := events.ready(worker.Ready{}); err != nil {
		return err
	}
	return events.emit(worker.Event{Event: "result", Result: &worker.Result{Watched: probe.RunSentinels(watch, ended)}})
}

// maxControlBytes bounds a line after the spec. No known control is longer.
const maxControlBytes = 4 << 10

// parseControl reads a line after the spec. It returns the zero value for a control that the
// worker does not know.
func parseControl(line []byte) worker.Order {
	var o worker.Order
	if json.Unmarshal(line, &o) != nil || !slices.Contains(controls, o.Control) {
		return worker.Order{}
	}
	return o
}

func readControls(input *bufio.Reader, controls *load.Controls) {
	lines := bufio.NewReaderSize(input, maxControlBytes)
	for {
		line, err := lines.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if !tooLong {
			obey(parseControl(line), controls)
		}
		if err != nil {
			return
		}
	}
}

func obey(o worker.Order, controls *load.Controls) {
	switch o.Control {
	case worker.EndControl:
		controls.End()
	case worker.PauseControl:
		controls.Pause()
	case worker.ResumeControl:
		controls.Resume()
	case worker.GoControl:
		controls.Go(o.AtNS)
	case worker.OpenControl:
		controls.Open(o.AtNS)
	}
}

var controls = []worker.Control{worker.EndControl, worker.PauseControl, worker.ResumeControl, worker.GoControl, worker.OpenControl}

func capabilities() *worker.Capabilities {
	all := &worker.Capabilities{
		Contract: worker.Contract, Roles: []worker.Role{worker.ServerRole, worker.ClientRole}, Stacks: map[string][]string{},
		Loads:    []scenario.LoadModel{scenario.Closed, scenario.Open, scenario.Burst, scenario.Ramp, scenario.Search},
		Controls: controls,
	}
	for _, s := range catalog.Stacks() {
		all.Stacks[s.Info().Name] = lists.Map(s.Info().Options, func(o scenario.Option) string { return o.Key })
	}
	all.Workloads = lists.Map(workloads.Workloads(), func(w workload.Workload) string { return w.Info().Name })
	// The modes of every stack. Some stacks also have resumed and 0rtt.
	for _, mode := range []scenario.ConnectionMode{scenario.Shared, scenario.PerWorker, scenario.Pool, scenario.New} {
		all.Connections = append(all.Connections, string(mode))
	}
	return all
}
