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

// starts are the probes. Each takes the best way that the machine allows.
var starts = map[string]func() (probe.Watch, error){
	record.ProbeCounters: counters.Start,
	record.ProbeSyscalls: syscalls.Start,
	record.ProbeCPU:      cpusamples.Start,
	record.ProbeOffCPU:   offcpu.Start,
	record.ProbeLife:     life.Start,
}

// Start starts a probe. Its error wraps host.ErrUnsupported where the machine does not allow
// it in any way, and ErrInWorker where workers can do without.
func Start(name string) (probe.Watch, error) {
	start := starts[name]
	if start == nil {
		return nil, fmt.Errorf("there is no probe %q", name)
	}
	w, err := start()
	return w, inWorker(name, err)
}
