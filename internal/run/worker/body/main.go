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
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload"
)

// errInputEnded is the cause of a context that ends because the worker's input has ended.
var errInputEnded = errors.New("the worker's standard input ended, so it stops")

// Main runs a worker with wirelab's own stacks and workloads.
func Main(ctx context.Context, input io.Reader, output io.Writer) error {
	return wirelab().Main(ctx, input, output)
}

// Main runs a worker. It reads a spec and runs its server or client, until the work is done or the
// input ends. If there is an error, it prints an error event and returns the error.
func (p Program) Main(ctx context.Context, input io.Reader, output io.Writer) error {
	events := &eventPrinter{encoder: json.NewEncoder(output)}
	err := p.runSpec(ctx, input, events)
	if err != nil {
		return errors.Join(err, events.printEvent(worker.Event{Event: "error", Error: &worker.Failure{Message: err.Error()}}))
	}
	return nil
}

func (p Program) runSpec(ctx context.Context, input io.Reader, events *eventPrinter) error {
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
		return events.printEvent(worker.Event{Event: "capabilities", Capabilities: p.capabilities()})
	}
	spec, err := p.newTask(*parsed)
	if err != nil {
		return err
	}
	applyRuntimeSettings(spec.Probe)
	if err := spec.applyVariantRuntime(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	controls := &load.Controls{}
	go func() { // ends when the input ends, or with the process
		readControls(reader, controls)
		cancel(errInputEnded)
	}()
	switch spec.Role {
	case worker.ServerRole:
		return runServer(ctx, spec, controls, events)
	case worker.VisitRole:
		return runVisit(ctx, spec, events)
	}
	return runClient(ctx, spec, controls, events)
}

// runSentinel watches CPUs until the input ends, and then prints what it has observed.
func runSentinel(watch []probe.SentinelCPU, input io.Reader, events *eventPrinter) error {
	ended := make(chan struct{})
	go func() { // ends when the input ends, or with the process
		_, _ = io.Copy(io.Discard, input)
		close(ended)
	}()
	if err := events.printReady(worker.Ready{}); err != nil {
		return err
	}
	return events.printEvent(worker.Event{Event: "result", Result: &worker.Result{Watched: probe.RunSentinels(watch, ended)}})
}

// sliceBytes is more than the JSON of a slice takes.
const sliceBytes = 128

// maxControlBytes bounds the length of a control's line. All known controls are shorter.
const maxControlBytes = load.MostSlices * sliceBytes

// parseControl parses a control's line. It returns the zero value for an unknown control.
func parseControl(line []byte) worker.ControlOrder {
	var o worker.ControlOrder
	if json.Unmarshal(line, &o) != nil || !slices.Contains(knownControls, o.Control) {
		return worker.ControlOrder{}
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
			applyControl(parseControl(line), controls)
		}
		if err != nil {
			return
		}
	}
}

func applyControl(o worker.ControlOrder, controls *load.Controls) {
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
	case worker.SlicesControl:
		controls.TakeTurns(o.Slices, o.AtNS)
	case worker.StepControl:
		if o.Step != nil {
			controls.GiveStep(*o.Step, o.AtNS)
		}
	}
}

var knownControls = []worker.Control{worker.EndControl, worker.PauseControl, worker.ResumeControl, worker.GoControl, worker.OpenControl, worker.SlicesControl, worker.StepControl}

func (p Program) capabilities() *worker.Capabilities {
	all := &worker.Capabilities{
		Contract: worker.Contract, Roles: []worker.Role{worker.ServerRole, worker.ClientRole},
		Stacks: map[string][]string{}, Lacks: map[string][]string{},
		Loads:    []scenario.LoadModel{scenario.Closed, scenario.Open, scenario.Burst, scenario.Ramp, scenario.Search},
		Controls: knownControls,
	}
	for _, s := range p.Stacks {
		all.Stacks[s.Info().Name] = lists.Map(s.Info().Options, func(o scenario.Option) string { return o.Key })
		for _, w := range p.Workloads {
			if checkCarries(s, w) != nil {
				all.Lacks[s.Info().Name] = append(all.Lacks[s.Info().Name], w.Info().Name)
			}
		}
	}
	all.Workloads = lists.Map(p.Workloads, func(w workload.Workload) string { return w.Info().Name })
	// Every stack supports these modes. Some stacks also support resumed and 0rtt.
	for _, mode := range []scenario.ConnectionMode{scenario.Shared, scenario.PerWorker, scenario.Pool, scenario.New} {
		all.Connections = append(all.Connections, string(mode))
	}
	return all
}

// checkCarries returns an error if a stack, without options, cannot carry a workload.
func checkCarries(s stack.Stack, w workload.Workload) error {
	if limiter, ok := s.(stack.WorkloadLimiter); ok {
		if err := limiter.CheckWorkload(w.Info().Name); err != nil {
			return err
		}
	}
	variant := scenario.Variant{Stack: s.Info().Name}
	streaming, ok := w.(workload.Streaming)
	if !ok {
		return stack.CheckKind(s, variant, stack.Unary)
	}
	for _, desc := range streaming.Streams(workload.Parameters{}) {
		if err := stack.CheckKind(s, variant, stack.KindOf(desc)); err != nil {
			return err
		}
	}
	return nil
}
