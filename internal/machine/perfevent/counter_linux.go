// Package perfevent opens events of the kernel's perf subsystem (perf_event_open(2)). A [Counter]
// counts one event in all threads of a process. A [Sampler] records call stacks. If the kernel
// refuses an event, the error wraps [host.ErrUnsupported] and names what is missing.
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

// An Event is something that the kernel or the processor can count.
type Event struct {
	Name   string
	kind   uint32
	config uint64
	bits   uint64 // flags such as unix.PerfBitExcludeKernel
}

// Events that the processor counts. Most virtual machines cannot count them.
var (
	Cycles          = processorEvent("cycles", unix.PERF_COUNT_HW_CPU_CYCLES)
	Instructions    = processorEvent("instructions", unix.PERF_COUNT_HW_INSTRUCTIONS)
	CacheReferences = processorEvent("cache-references", unix.PERF_COUNT_HW_CACHE_REFERENCES)
	CacheMisses     = processorEvent("cache-misses", unix.PERF_COUNT_HW_CACHE_MISSES)
	BranchMisses    = processorEvent("branch-misses", unix.PERF_COUNT_HW_BRANCH_MISSES)
)

// Events that the kernel counts.
var (
	TaskClock  = kernelEvent("task-clock", unix.PERF_COUNT_SW_TASK_CLOCK)
	Migrations = kernelEvent("cpu-migrations", unix.PERF_COUNT_SW_CPU_MIGRATIONS)
)

func processorEvent(name string, config uint64) Event {
	return Event{Name: name, kind: unix.PERF_TYPE_HARDWARE, config: config}
}

func kernelEvent(name string, config uint64) Event {
	return Event{Name: name, kind: unix.PERF_TYPE_SOFTWARE, config: config}
}

// TracepointEvent returns the event of a tracepoint. Example: syscalls/sys_enter_read.
func TracepointEvent(path string) (Event, error) {
	var problem error
	// Kernels before 4.1, and some later ones, mount tracefs only below debugfs.
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

// UserSpaceOnly returns the event limited to user space, which needs fewer rights. Use it only for
// processor events. A kernel event would count nothing, without an error.
func (e Event) UserSpaceOnly() Event {
	e.Name, e.bits = e.Name+":u", unix.PerfBitExcludeKernel|unix.PerfBitExcludeHv
	return e
}

// IsProcessorEvent reports whether the processor counts the event.
func (e Event) IsProcessorEvent() bool { return e.kind == unix.PERF_TYPE_HARDWARE }

// Advice for users whose process may not count events of other processes.
const (
	permissionAdvice = "sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON"
	seccompAdvice    = "in a container, add --cap-add=PERFMON, or a seccomp profile that allows perf_event_open"
)

func explainRefusal(err error) error {
	switch {
	case errors.Is(err, unix.EPERM): // seccomp refused; a missing capability would give EACCES
		return fmt.Errorf("%w: %w; %s", host.ErrUnsupported, err, seccompAdvice)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w; %s", host.ErrUnsupported, err, permissionAdvice)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: the machine cannot count this event (%w); use a physical machine, or a virtual machine with a PMU", host.ErrUnsupported, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w; use a kernel with CONFIG_PERF_EVENTS", host.ErrUnsupported, err)
	}
	return err
}

// A Counter counts an event in a process's threads, including threads that start later.
type Counter struct {
	Event   Event
	threads []int // file descriptors
}

// A Count holds one reading of a Counter.
type Count struct {
	Value uint64
	// EnabledNS is the time that the counter was enabled; RunningNS is the time that it counted.
	// They differ because the processor counts only a few events at a time and alternates between
	// events.
	EnabledNS, RunningNS uint64
}

// OpenCounter starts to count an event of a process.
func OpenCounter(event Event, pid int) (*Counter, error) {
	c := &Counter{Event: event}
	attributes := unix.PerfEventAttr{
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Type: event.kind, Config: event.config, Bits: event.bits | unix.PerfBitInherit,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	err := forEachThread(pid, func(thread int) error {
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

// forEachThread calls call once for each thread of a process. It lists the threads again until it
// finds no new thread. It ignores threads that end meanwhile.
func forEachThread(pid int, call func(thread int) error) error {
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
				return explainRefusal(err)
			}
		}
	}
	return nil
}

// Read returns the count so far.
func (c *Counter) Read() (sum Count, _ error) {
	var values [24]byte // 8 bytes for each field of Count
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
