// Package perfevent opens events of the kernel's perf subsystem, perf_event_open(2): a
// [Counter] counts for all threads of a process, and a [Sampler] takes call stacks on the
// CPUs. An error for a refused event wraps [host.ErrUnsupported] and says what is needed.
package perfevent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// An Event is something that the kernel or the processor counts.
type Event struct {
	Name   string
	kind   uint32
	config uint64
	bits   uint64 // such as unix.PerfBitExcludeKernel
}

// The processor's events. Virtual machines mostly have none.
var (
	Cycles          = processors("cycles", unix.PERF_COUNT_HW_CPU_CYCLES)
	Instructions    = processors("instructions", unix.PERF_COUNT_HW_INSTRUCTIONS)
	CacheReferences = processors("cache-references", unix.PERF_COUNT_HW_CACHE_REFERENCES)
	CacheMisses     = processors("cache-misses", unix.PERF_COUNT_HW_CACHE_MISSES)
	BranchMisses    = processors("branch-misses", unix.PERF_COUNT_HW_BRANCH_MISSES)
)

// The kernel's events.
var (
	TaskClock  = kernels("task-clock", unix.PERF_COUNT_SW_TASK_CLOCK)
	Migrations = kernels("cpu-migrations", unix.PERF_COUNT_SW_CPU_MIGRATIONS)
)

func processors(name string, config uint64) Event {
	return Event{Name: name, kind: unix.PERF_TYPE_HARDWARE, config: config}
}

func kernels(name string, config uint64) Event {
	return Event{Name: name, kind: unix.PERF_TYPE_SOFTWARE, config: config}
}

// OfTracepoint returns the event of a tracepoint, by its path, as in syscalls/sys_enter_read.
func OfTracepoint(path string) (Event, error) {
	var problem error
	// Kernels before 4.1, and some later ones, have it in the second place only.
	for _, root := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		text, err := os.ReadFile(root + "/events/" + path + "/id")
		if err != nil {
			problem = errors.Join(problem, err)
			continue
		}
		id, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
		return Event{Name: path, kind: unix.PERF_TYPE_TRACEPOINT, config: id}, err
	}
	cure := "as root: mount -t tracefs tracefs /sys/kernel/tracing"
	if errors.Is(problem, fs.ErrPermission) {
		cure = "run as root"
	}
	return Event{}, fmt.Errorf("%w: %w; %s", host.ErrUnsupported, problem, cure)
}

// InUserSpace returns a processor's event without the kernel's share, which needs fewer rights.
// Events of the kernel would not be refused in this form, but would count nothing.
func (e Event) InUserSpace() Event {
	e.Name, e.bits = e.Name+":u", unix.PerfBitExcludeKernel|unix.PerfBitExcludeHv
	return e
}

// IsProcessors reports whether the event needs the processor's counter unit.
func (e Event) IsProcessors() bool { return e.kind == unix.PERF_TYPE_HARDWARE }

// Remedies: how a process is allowed to count the events of others.
const (
	cure       = "sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON"
	filterCure = "a container refuses it: --cap-add=PERFMON, or a seccomp profile that has perf_event_open"
)

// unsupported returns the error for a refusal of the kernel.
func unsupported(err error) error {
	switch {
	case errors.Is(err, unix.EPERM): // a missing right gives EACCES instead
		return fmt.Errorf("%w: %w; %s", host.ErrUnsupported, err, filterCure)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w; %s", host.ErrUnsupported, err, cure)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: the machine has no counter unit for it (%w); a physical machine has, and some virtual ones", host.ErrUnsupported, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w; it needs a kernel with CONFIG_PERF_EVENTS", host.ErrUnsupported, err)
	}
	return err
}

// Counter counts an event for a process's threads, and for those that they start.
type Counter struct {
	Event   Event
	threads []int // file descriptors
}

// A Count holds what a counter has counted.
type Count struct {
	Value uint64
	// EnabledNS is the time for which the counter was switched on, RunningNS the time for
	// which it counted: the processor counts few events at a time.
	EnabledNS, RunningNS uint64
}

// Open starts to count for a process.
func Open(event Event, pid int) (*Counter, error) {
	c := &Counter{Event: event}
	attributes := unix.PerfEventAttr{
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Type: event.kind, Config: event.config, Bits: event.bits | unix.PerfBitInherit,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	err := eachThread(pid, func(thread int) error {
		fd, err := unix.PerfEventOpen(&attributes, thread, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err == nil {
			c.threads = append(c.threads, fd)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// eachThread calls a function once for each thread of a process, until it finds no new thread: a
// thread may start another meanwhile. A thread that has ended meanwhile is no error.
func eachThread(pid int, call func(thread int) error) error {
	called := map[int]bool{}
	for before := -1; before < len(called); {
		before = len(called)
		entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		if err != nil {
			return fmt.Errorf("find the threads of process %d: %w", pid, err)
		}
		for _, entry := range entries {
			thread, err := strconv.Atoi(entry.Name())
			if err != nil || called[thread] {
				continue
			}
			called[thread] = true
			if err := call(thread); err != nil && !errors.Is(err, unix.ESRCH) {
				return unsupported(err)
			}
		}
	}
	return nil
}

// Read returns the count so far.
func (c *Counter) Read() (sum Count, _ error) {
	var values [24]byte // value, enabled, running
	for _, fd := range c.threads {
		if _, err := unix.Read(fd, values[:]); err != nil {
			return Count{}, fmt.Errorf("read the counter of %s: %w", c.Event.Name, err)
		}
		sum.Value += binary.NativeEndian.Uint64(values[0:])
		sum.EnabledNS += binary.NativeEndian.Uint64(values[8:])
		sum.RunningNS += binary.NativeEndian.Uint64(values[16:])
	}
	return sum, nil
}

// Close stops the counter.
func (c *Counter) Close() (err error) {
	for _, fd := range c.threads {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
