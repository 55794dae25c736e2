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
	record.ProbeCounters: watch(counters.Start),
	record.ProbeSyscalls: syscalls.Start,
	record.ProbeCPU:      watch(cpusamples.Start),
	record.ProbeOffCPU:   watch(offcpu.Start),
	record.ProbeLife:     life.Start,
}

// watch makes no watch where there is an error.
func watch[W probe.Watch](start func() (W, error)) func() (probe.Watch, error) {
	return func() (probe.Watch, error) {
		w, err := start()
		if err != nil {
			return nil, err
		}
		return w, nil
	}
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
