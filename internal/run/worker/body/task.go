// Package body holds what wirelab's own workers do: it reads a spec of package worker, runs the
// server or client that the spec describes, and prints its events.
//
//	spec ── Main ──> server: serve until the input ends ──────────> result
//	            └──> client: connect ── load ── count the bytes ──> result
//
// This package must not know the plan that a trial is part of, nor judge what it measured.
package body

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

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
)

// A task is the spec that a worker carries out, with its variant.
type task struct {
	worker.Spec
	variant scenario.Variant
	own     stack.Stack // nil: the client calls a service of the user's own
}

func newTask(spec worker.Spec) (*task, error) {
	variant, err := scenario.ParseVariant(spec.Stack)
	s := &task{Spec: spec, variant: variant}
	if err == nil && variant.Stack != service.Stack {
		s.own, err = catalog.Find(variant.Stack)
	}
	return s, err
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

// progress prints how far the load has come. If it cannot be printed, printing the result will
// fail too.
func (e *emitter) progress(p live.Progress) {
	_ = e.emit(worker.Event{Event: "progress", Progress: &p})
}

func (e *emitter) ready(r worker.Ready) error {
	r.Contract, r.PID = worker.Contract, cmp.Or(r.PID, os.Getpid())
	if r.Runtime == "" { // otherwise another program serves or calls
		r.Runtime, r.GoMaxProcs = runtime.Version(), runtime.GOMAXPROCS(0)
	}
	return e.emit(worker.Event{Event: "ready", Ready: &r})
}

// spinTime is the time that a worker spins to see what others take of its CPUs: short, because
// every trial does it four times, and longer than a scheduler's slice of a few milliseconds.
const spinTime = 10 * time.Millisecond

// spinBefore measures the noise before the work; spinAfter adds the noise after it. The
// result is nil if no CPU could be spun on.
func spinBefore() *worker.Noise {
	spun := host.Calibrate(nil, spinTime)
	if spun.CPUs == 0 {
		return nil
	}
	return &worker.Noise{LostBefore: spun.LostShare, LargestGapNS: int64(spun.LargestGap)}
}

func spinAfter(n *worker.Noise) {
	if n == nil {
		return
	}
	spun := host.Calibrate(nil, spinTime)
	n.LostAfter = spun.LostShare
	n.LargestGapNS = max(n.LargestGapNS, int64(spun.LargestGap))
}

// allowance returns what the kernel let a process of this worker use, or nil.
func allowance(pid int) *host.Allowance {
	a, err := host.AllowanceOf(pid)
	if err != nil {
		return nil
	}
	return &a
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
	if percent := catalog.Collector(s.variant); percent != 0 {
		debug.SetGCPercent(percent)
	}
	if limit := catalog.SmallObject(s.variant); limit != 0 && limit != rebuild.SmallObject() {
		return fmt.Errorf("variant %s: this program's runtime has a limit of %d bytes: it was not rebuilt", s.variant, rebuild.SmallObject())
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
