package catalog

import (
	"fmt"

	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/probe/counters"
	"wirelab.dev/internal/probe/cpusamples"
	"wirelab.dev/internal/probe/life"
	"wirelab.dev/internal/probe/offcpu"
	"wirelab.dev/internal/probe/syscalls"
	"wirelab.dev/internal/record"
)

// Start starts a probe, in the best way that the machine allows.
func Start(name string) (probe.Watch, error) {
	switch name {
	case record.ProbeCounters:
		return counters.Start()
	case record.ProbeSyscalls:
		return syscalls.StartCensus()
	case record.ProbeOffCPU:
		return offcpu.Start()
	case record.ProbeLife:
		return life.Start()
	case record.ProbeCPU:
		return cpusamples.Start()
	}
	return nil, fmt.Errorf("there is no probe %q", name)
}
