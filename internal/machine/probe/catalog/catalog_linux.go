package catalog

import (
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/probe/counters"
	"wirelab.dev/internal/machine/probe/cpusamples"
	"wirelab.dev/internal/machine/probe/life"
	"wirelab.dev/internal/machine/probe/offcpu"
	"wirelab.dev/internal/machine/probe/syscalls"
)

var startFunctions = map[string]func() (probe.Watch, error){
	record.ProbeCounters: counters.Start,
	record.ProbeSyscalls: syscalls.Start,
	record.ProbeCPU:      cpusamples.Start,
	record.ProbeOffCPU:   offcpu.Start,
	record.ProbeLife:     life.Start,
}

func start(name string) (probe.Watch, error) {
	if start, known := startFunctions[name]; known {
		return start()
	}
	return nil, fmt.Errorf("there is no probe %q", name)
}
