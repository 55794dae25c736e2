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

// A fallback is the common part of counters that count less than BPFCounter.
type fallback struct{ coverage probe.Coverage }

// Coverage returns how calls are counted, and what is not counted.
func (f *fallback) Coverage() probe.Coverage { return f.coverage }

func (f *fallback) addMissing(what string, why error) {
	f.coverage.Missing = append(f.coverage.Missing, fmt.Sprintf("%s: %v", what, why))
}

// tracedSyscalls lists the system calls that matter most for RPC. The list is short, because each
// event makes every context switch slower.
var tracedSyscalls = []string{
	"read", "write", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg",
	"futex", "epoll_pwait", "epoll_wait", "ppoll", "nanosleep", "sched_yield",
}

const enterTracepointPrefix = "syscalls/sys_enter_"

// A TracepointCounter counts calls with one perf event for each name in tracedSyscalls.
type TracepointCounter struct {
	fallback
	traced []perfevent.Event
	ends   [2][]*probe.EventCounter
}

func startTracepointCounter() (*TracepointCounter, error) {
	t := &TracepointCounter{fallback: fallback{probe.Coverage{Method: "perf events on the tracepoints of " + strings.Join(tracedSyscalls, ", ")}}}
	var problem error
	for _, name := range tracedSyscalls {
		event, err := perfevent.TracepointEvent(enterTracepointPrefix + name)
		if err != nil { // some architectures lack this system call
			problem = err
			continue
		}
		t.traced = append(t.traced, event)
	}
	if len(t.traced) == 0 {
		return nil, problem
	}
	own, err := perfevent.OpenCounter(t.traced[0], os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("count system calls at a tracepoint: %w", err)
	}
	return t, own.Close()
}

// AddProcess starts to count the calls of a process of the server or the client, and of the processes
// that it starts.
func (t *TracepointCounter) AddProcess(end probe.End, pid int) error {
	events, err := probe.CountEvents(pid, t.traced)
	if err == nil {
		t.ends[end] = append(t.ends[end], events)
	}
	return err
}

// Stop returns the number of calls of each name in the window.
func (t *TracepointCounter) Stop(window probe.MeasuredWindow) (findings probe.Findings, all error) {
	for at, processes := range t.ends {
		if processes == nil {
			continue
		}
		counts, missing, err := probe.StopEvents(processes, window.Span)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		seen := findings.ForEnd(probe.End(at))
		seen.Method = t.coverage.Method
		seen.Missing = slices.Concat(t.coverage.Missing, missing)
		for _, c := range counts {
			addSyscall(seen, record.Syscall{Name: strings.TrimPrefix(c.Name, enterTracepointPrefix)}, c.Count)
		}
	}
	return findings, all
}

// A ProcfsCounter reads the numbers of read and write calls from /proc/PID/io.
type ProcfsCounter struct {
	fallback
	ends [2][]*probe.Readings
}

// ioLabels lists lines of /proc/PID/io, and the system calls that each line counts
// (proc_pid_io(5)). No line counts socket calls such as sendto.
var ioLabels = []struct{ label, name string }{
	{"\nsyscr", "reads (read, readv, pread64 …)"},
	{"\nsyscw", "writes (write, writev, pwrite64 …)"},
}

const ioReadingPeriod = 50 * time.Millisecond

func startProcfsCounter() (*ProcfsCounter, error) {
	if _, err := readIOCounts(os.Getpid()); err != nil {
		return nil, fmt.Errorf("%w: %w; use a kernel with CONFIG_TASK_IO_ACCOUNTING", host.ErrUnsupported, err)
	}
	return &ProcfsCounter{fallback: fallback{probe.Coverage{
		Method:     "/proc/PID/io: sums of reads and writes, without sendto and recvmsg",
		Unfollowed: "their reads and writes: /proc/PID/io is read of the processes that ran at the beginning; run as root",
	}}}, nil
}

// AddProcess starts to read the counts of a process of the server or the client.
func (p *ProcfsCounter) AddProcess(end probe.End, pid int) error {
	last, err := readIOCounts(pid) // the last counts are needed after the process has ended
	if err != nil {
		return fmt.Errorf("%w; run as root", err)
	}
	p.ends[end] = append(p.ends[end], probe.StartReadings(len(ioLabels), ioReadingPeriod, func(into []uint64) error {
		switch now, err := readIOCounts(pid); {
		case err == nil:
			copy(last, now)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH):
			return err
		}
		copy(into, last)
		return nil
	}))
	return nil
}

// Stop returns the number of reads and writes in the window.
func (p *ProcfsCounter) Stop(window probe.MeasuredWindow) (findings probe.Findings, all error) {
	for at, processes := range p.ends {
		if processes == nil {
			continue
		}
		seen := findings.ForEnd(probe.End(at))
		seen.Method, seen.Missing = p.coverage.Method, slices.Clone(p.coverage.Missing)
		sums := make([]float64, len(ioLabels))
		for _, readings := range processes {
			readings.Stop()
			grown, err := readings.Between(window.Span)
			all = errors.Join(all, err)
			for i, growth := range grown {
				sums[i] += growth
			}
		}
		for i, sum := range ioLabels {
			addSyscall(seen, record.Syscall{Name: sum.name}, sums[i])
		}
	}
	return findings, all
}

func readIOCounts(pid int) ([]uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return nil, fmt.Errorf("count reads and writes: %w", err)
	}
	found := make([]uint64, len(ioLabels))
	for i, sum := range ioLabels {
		count, known := probe.NumberAfterLabel(text, sum.label)
		if !known {
			return nil, fmt.Errorf("/proc/%d/io has no line %s", pid, strings.TrimSpace(sum.label))
		}
		found[i] = uint64(count)
	}
	return found, nil
}
