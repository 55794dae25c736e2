// Package body implements wirelab's own workers. A worker reads a spec of package worker, runs the
// server or client of the spec, and prints events.
//
//	spec ── Main ──> server: serve until the input ends ──────────> result
//	            └──> client: connect ── load ── count the bytes ──> result
//
// This package must not know the plan of a run, and must not judge its own measurements.
package body

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// A Program holds what a worker's program can carry and call.
type Program struct {
	Stacks    []stack.Stack
	Workloads []workload.Workload
}

// wirelab returns wirelab's own program.
func wirelab() Program { return Program{catalog.Stacks(), workloads.Workloads()} }

// A task is a worker's spec together with the parsed variant.
type task struct {
	worker.Spec
	variant scenario.Variant
	own     stack.Stack // nil if the client calls a user's own service
	program Program
}

func (p Program) newTask(spec worker.Spec) (*task, error) {
	variant, err := scenario.ParseVariant(spec.Stack)
	s := &task{Spec: spec, variant: variant, program: p}
	if err == nil && variant.Stack != service.StackName {
		s.own, err = catalog.FindIn(p.Stacks, variant.Stack)
	}
	return s, err
}

// eventPrinter prints events, each as one line of JSON.
type eventPrinter struct {
	guard   sync.Mutex
	encoder *json.Encoder
}

func (e *eventPrinter) printEvent(event worker.Event) error {
	e.guard.Lock()
	defer e.guard.Unlock()
	return e.encoder.Encode(event)
}

// printProgress prints a progress event. If this fails, printing the result will fail, too.
func (e *eventPrinter) printProgress(p live.Progress) {
	_ = e.printEvent(worker.Event{Event: "progress", Progress: &p})
}

func (e *eventPrinter) printReady(r worker.Ready) error {
	r.Contract, r.PID = worker.Contract, cmp.Or(r.PID, os.Getpid())
	if r.Runtime == "" { // otherwise another program serves or makes the calls
		r.Runtime, r.GoMaxProcs = runtime.Version(), runtime.GOMAXPROCS(0)
	}
	return e.printEvent(worker.Event{Event: "ready", Ready: &r})
}

// allowanceOf returns the CPUs and the quota that a process may use, or nil if they are unknown.
func allowanceOf(pid int) *host.Allowance {
	a, err := host.ReadAllowance(pid)
	if err != nil {
		return nil
	}
	return &a
}

// applyRuntimeSettings sets the memory limit, and how allocations are sampled for the probe seen.
func applyRuntimeSettings(seen string) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(worker.MemoryLimit)
	}
	probe.SampleAllocations(seen == record.ProbeAllocations)
}

// applyVariantRuntime applies the variant's settings of the Go runtime. It returns an error if a
// setting needs a program with a rebuilt runtime.
func (s *task) applyVariantRuntime() error {
	if percent := catalog.Collector(s.variant); percent != 0 {
		debug.SetGCPercent(percent)
	}
	if threads := catalog.Threads(s.variant); threads != 0 {
		runtime.GOMAXPROCS(threads)
	}
	if limit := catalog.MemoryLimit(s.variant); limit != 0 {
		debug.SetMemoryLimit(int64(limit))
	}
	if limit := catalog.SmallObject(s.variant); limit != 0 && limit != rebuild.SmallObjectLimit() {
		return fmt.Errorf("variant %s: this program was not rebuilt for the option smallobject: the limit in its runtime is %d bytes", s.variant, rebuild.SmallObjectLimit())
	}
	return nil
}

// watchAllocations counts allocations if the spec asks for it. stop returns the counts, or nil.
func (s *task) watchAllocations() (stop func() *record.Allocations) {
	if s.Probe != record.ProbeAllocations {
		return func() *record.Allocations { return nil }
	}
	return probe.WatchAllocations().Stop
}

// profileCPU samples call stacks if the spec asks for it. stop returns the stacks, or nil.
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
