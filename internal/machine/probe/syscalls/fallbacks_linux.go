package syscalls

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
)

// A fallback counts less than Census, and reports what it misses.
type fallback struct{ coverage probe.Coverage }

// Coverage returns how it counts.
func (f *fallback) Coverage() probe.Coverage { return f.coverage }

func (f *fallback) lacks(what string, why error) {
	f.coverage.Missing = append(f.coverage.Missing, fmt.Sprintf("%s: %v", what, why))
}

// traced lists the calls that matter most. Each makes every switch of a thread more expensive.
var traced = []string{
	"read", "write", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg",
	"futex", "epoll_pwait", "epoll_wait", "ppoll", "nanosleep", "sched_yield",
}

const enter = "syscalls/sys_enter_"

// Tracepoints counts with an event of the kernel for each name.
type Tracepoints struct {
	fallback
	traced []perfevent.Event
	ends   [2]*probe.Events
}

// startTracepoints fails with host.ErrUnsupported if the kernel refuses.
func startTracepoints() (*Tracepoints, error) {
	t := &Tracepoints{fallback: fallback{probe.Coverage{Method: "perf events on the tracepoints of " + strings.Join(traced, ", ")}}}
	var problem error
	for _, name := range traced {
		event, err := perfevent.OfTracepoint(enter + name)
		if err != nil { // some architectures lack some calls
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
			addCalls(seen, record.Syscall{Name: strings.TrimPrefix(c.Name, enter)}, c.Count)
		}
	}
	return findings, all
}

// Procfs reads the sums that the kernel keeps for each process.
type Procfs struct {
	fallback
	ends [2]*probe.Readings
}

// sums lists the lines of /proc/PID/io, and the calls that each counts: proc_pid_io(5). Calls on
// sockets alone, such as sendto, are in neither line.
var sums = []struct{ label, name string }{
	{"\nsyscr", "reads (read, readv, pread64 …)"},
	{"\nsyscw", "writes (write, writev, pwrite64 …)"},
}

const sumsPeriod = 50 * time.Millisecond

// startProcfs fails with host.ErrUnsupported if the kernel does not count.
func startProcfs() (*Procfs, error) {
	if _, err := readSums(os.Getpid()); err != nil {
		return nil, fmt.Errorf("%w: %w; it needs a kernel with CONFIG_TASK_IO_ACCOUNTING", host.ErrUnsupported, err)
	}
	return &Procfs{fallback: fallback{probe.Coverage{Method: "/proc/PID/io: sums of reads and writes, without sendto and recvmsg"}}}, nil
}

// Process sets the process at an end.
func (p *Procfs) Process(end probe.End, pid int) error {
	if p.ends[end] != nil {
		p.ends[end].Stop()
	}
	last := make([]uint64, len(sums)) // the last figures, for a process that has ended
	p.ends[end] = probe.TakeReadings(len(sums), sumsPeriod, func(into []uint64) error {
		switch now, err := readSums(pid); {
		case err == nil:
			copy(last, now)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH):
			return err
		}
		copy(into, last)
		return nil
	})
	return nil
}

// Stop returns the sums of the window.
func (p *Procfs) Stop(window probe.Measured) (findings probe.Findings, all error) {
	for at, readings := range p.ends {
		if readings == nil {
			continue
		}
		readings.Stop()
		grown, err := readings.Between(window.Span)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		seen := findings.Of(probe.End(at))
		seen.Method, seen.Missing = p.coverage.Method, slices.Clone(p.coverage.Missing)
		for i, sum := range sums {
			addCalls(seen, record.Syscall{Name: sum.name}, grown[i])
		}
	}
	return findings, all
}

func readSums(pid int) ([]uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return nil, fmt.Errorf("count reads and writes: %w", err)
	}
	found := make([]uint64, len(sums))
	for i, sum := range sums {
		count, known := probe.Figure(text, sum.label)
		if !known {
			return nil, errors.New("its io file lacks syscr or syscw")
		}
		found[i] = uint64(count)
	}
	return found, nil
}
