package body

import (
	"fmt"
	"os"
	"runtime/debug"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
)

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
