package syscalls

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
)

// traced are the calls that matter most to a wire. Each costs something at every switch of
// a thread.
var traced = []string{
	"read", "write", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg",
	"futex", "epoll_pwait", "epoll_wait", "ppoll", "nanosleep", "sched_yield",
}

const enter = "syscalls/sys_enter_"

// Tracepoints counts with an event of the kernel for each name.
type Tracepoints struct {
	coverage probe.Coverage
	traced   []perfevent.Event
	ends     [2]*probe.Events
}

// startTracepoints fails with host.ErrUnsupported where the kernel refuses.
func startTracepoints() (*Tracepoints, error) {
	t := &Tracepoints{coverage: probe.Coverage{Method: "perf events on the tracepoints of " + strings.Join(traced, ", ")}}
	var problem error
	for _, name := range traced {
		event, err := perfevent.OfTracepoint(enter + name)
		if err != nil { // some architectures do not have all
			problem = err
			continue
		}
		t.traced = append(t.traced, event)
	}
	if len(t.traced) == 0 {
		return nil, problem
	}
	own, err := perfevent.Open(t.traced[0], os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("count at a tracepoint: %w", err)
	}
	return t, own.Close()
}

// Coverage returns how it counts.
func (t *Tracepoints) Coverage() probe.Coverage { return t.coverage }

func (t *Tracepoints) lacks(format string, why error) {
	t.coverage.Missing = append(t.coverage.Missing, fmt.Errorf(format, why).Error())
}

// Process sets the process at an end.
func (t *Tracepoints) Process(end probe.End, pid int) (err error) {
	if t.ends[end] != nil {
		if err := t.ends[end].Discard(); err != nil {
			return err
		}
	}
	t.ends[end], err = probe.CountEvents(pid, t.traced)
	return err
}

// Stop returns the counts of the window.
func (t *Tracepoints) Stop(window probe.Measured) (findings probe.Findings, all error) {
	for at, events := range t.ends {
		if events == nil {
			continue
		}
		counts, err := events.Stop(window.Span)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		seen := findings.Of(probe.End(at))
		seen.Method = t.coverage.Method
		seen.Missing = slices.Concat(t.coverage.Missing, events.Missing)
		for _, c := range counts {
			if count := int64(math.Round(c.Count)); count > 0 {
				seen.Syscalls = append(seen.Syscalls, record.Syscall{Name: strings.TrimPrefix(c.Name, enter), Count: count})
			}
		}
		sortCalls(seen.Syscalls)
	}
	return findings, all
}

func sortCalls(calls []record.Syscall) {
	slices.SortFunc(calls, func(a, b record.Syscall) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}
