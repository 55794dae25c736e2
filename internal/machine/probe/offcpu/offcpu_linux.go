// Package offcpu records where the threads of a server and its client are off the CPU, and for how
// long. Programs in the kernel record a thread's call stack when the thread leaves its CPU.
//
// A thread is off its CPU if it sleeps, waits, or is interrupted by another thread. If a goroutine of a
// Go program waits, its thread runs another goroutine, and sleeps only if no goroutine is ready. So the
// probe also records where the goroutines of a server wait: see goroutines_linux.go.
package offcpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf/asm"

	"wirelab.dev/internal/machine/bpf"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/symbol"
)

// An event describes one wait. The program in the kernel writes the start, the end, the numbers of the
// stacks in user space and in the kernel, whether it is the server's, the process, and the return address
// of a goroutine's wait.
const (
	eventBytes  = 40
	ringBytes   = 16 << 20
	drainPeriod = 50 * time.Millisecond
	// maxWaits limits the waits of an end. At the limit, half of them are dropped, and later only half as
	// many are kept.
	maxWaits = 1 << 20
)

// bytesPerThread is the size of the entry of a thread that is off its CPU: its number, its end,
// when it left the CPU, its stacks, and its process. A later thread may overwrite another thread's entry.
const bytesPerThread = 32

// A Watch records the periods off the CPU of the server's and the client's threads.
type Watch struct {
	session bpf.Session
	ends    *bpf.WatchedEnds
	off     *bpf.ThreadTable
	stacks  *bpf.StackMap
	events  *bpf.EventRing

	goroutines *goroutines

	waits [2]waits
	*probe.Collector
}

// A wait is one period off the CPU, or one wait of a goroutine.
type wait struct {
	beginNS, endNS int64
	user, kernel   int32 // numbers of call stacks
	pid            int32
	caller         uint64 // return address of the function that makes a goroutine wait; 0 for a thread
}

// waits holds every Nth wait of an end.
type waits struct {
	list       []wait
	each, came int64
}

func (w *waits) add(one wait, most int) {
	w.each = max(1, w.each)
	w.came++
	if w.came%w.each != 0 {
		return
	}
	if w.list = append(w.list, one); len(w.list) == most {
		for i := range most / 2 {
			w.list[i] = w.list[2*i+1]
		}
		w.list = w.list[:most/2]
		w.each *= 2
	}
}

// Start starts the programs in the kernel.
func Start() (probe.Watch, error) {
	pid, err := bpf.FieldOffset("task_struct", "pid")
	if err != nil {
		return nil, err
	}
	w := &Watch{}
	w.ends, w.off, w.stacks, w.events = w.session.NewWatchedEnds(), w.session.NewThreadTable("off", bytesPerThread), w.session.NewStackMap(), w.session.NewEventRing(ringBytes)
	if w.session.Err() == nil {
		w.goroutines = newGoroutines(w)
		w.session.Start(
			bpf.Program{Name: "leave", On: "sched_switch", Code: w.switchOutProgram()},
			bpf.Program{Name: "come", On: "sched_switch", Code: w.switchInProgram(pid)},
		)
	}
	if err := w.session.Err(); err != nil {
		return nil, errors.Join(err, w.session.Close())
	}
	w.Collector = probe.StartCollector(drainPeriod, w.drain)
	return w, nil
}

// switchOutProgram returns the program that stores when and where a thread leaves its CPU.
func (w *Watch) switchOutProgram() asm.Instructions {
	const place = bpf.SpareRegister
	return slices.Concat(w.ends.FilterProcesses(), w.off.LoadPlace(place), asm.Instructions{
		asm.StoreMem(place, 4, bpf.EndRegister, asm.Word),
		asm.StoreMem(place, 24, asm.R0, asm.Word),
	}, w.stacks.CaptureStack(true), asm.Instructions{
		asm.StoreMem(place, 16, asm.R0, asm.Word),
	}, w.stacks.CaptureStack(false), asm.Instructions{
		asm.StoreMem(place, 20, asm.R0, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(place, 8, asm.R0, asm.DWord),
		asm.StoreMem(place, 0, bpf.ThreadRegister, asm.Word),
	})
}

// switchInProgram returns the program that writes the event of a watched thread when the thread
// gets a CPU again.
func (w *Watch) switchInProgram(pid int32) asm.Instructions {
	const (
		place = bpf.SpareRegister
		event = 48 // distance of the event from the stack's end, in bytes
	)
	return slices.Concat(bpf.BeginWithNextThread(pid), w.off.FindPlace(place), asm.Instructions{
		asm.StoreImm(place, 0, 0, asm.Word),
		asm.LoadMem(asm.R1, place, 8, asm.DWord),
		asm.StoreMem(asm.RFP, -event, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, place, 16, asm.DWord), // numbers of both stacks
		asm.StoreMem(asm.RFP, -event+16, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, place, 4, asm.Word),
		asm.StoreMem(asm.RFP, -event+24, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, place, 24, asm.Word),
		asm.StoreMem(asm.RFP, -event+28, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, -event+32, asm.R1, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -event+8, asm.R0, asm.DWord),
	}, w.events.Emit(event, eventBytes))
}

func (w *Watch) drain(ends map[int]probe.End) error {
	return w.events.Drain(func(event []byte) {
		if len(event) < eventBytes {
			return
		}
		long, word := binary.NativeEndian.Uint64, binary.NativeEndian.Uint32
		end, pid := word(event[24:]), int32(word(event[28:]))
		if end >= uint32(len(w.waits)) {
			return
		}
		w.waits[end].add(wait{
			beginNS: int64(long(event)), endNS: int64(long(event[8:])),
			user: int32(word(event[16:])), kernel: int32(word(event[20:])), pid: pid, caller: long(event[32:]),
		}, maxWaits)
		ends[int(pid)] = probe.End(end) // a watched process may have started it
	})
}

// Coverage returns how the probe works here.
func (w *Watch) Coverage() probe.Coverage {
	c := probe.Coverage{Method: threadsMethod}
	if err := tryGoroutines(); err != nil {
		c.Missing = []string{fmt.Sprintf("waits of goroutines of Go programs: %v", err)}
	} else {
		c.Method += goroutinesMethod
	}
	if w.ends.Unfollowed != nil {
		c.Unfollowed = w.ends.Unfollowed.Error()
	}
	return c
}

const threadsMethod, goroutinesMethod = "BPF on every switch of a thread", ", and on every wait of a goroutine of the server"

// AddProcess starts to watch a process of the server or the client.
func (w *Watch) AddProcess(end probe.End, pid int) error {
	return w.Collector.AddProcess(end, pid, func() error {
		if end == probe.Server {
			w.goroutines.watch(pid)
		}
		return w.ends.AddProcess(int(end), pid)
	})
}

// Stop returns the stacks of the waits. Each stack's weight is its time inside the window.
func (w *Watch) Stop(window probe.MeasuredWindow) (findings probe.Findings, err error) {
	watched, err := w.Collector.Stop()
	lost, lostErr := w.events.LostEvents()
	how := probe.Coverage{Method: threadsMethod}
	if _, err := symbol.LoadKernel(); err != nil {
		how.Missing = []string{err.Error()}
	}
	if err = errors.Join(err, lostErr); err == nil {
		findings, err = probe.GatherStacks(watched, how, lost, func(end probe.End, to *probe.Stacks) error {
			return w.addWaits(to, end, window.Span)
		})
	}
	if findings.Server.Stacks != nil {
		if w.goroutines.watched > 0 {
			findings.Server.Method += goroutinesMethod
		}
		findings.Server.Missing = append(findings.Server.Missing, w.goroutines.missing...)
	}
	if closing := w.session.Close(); closing != nil {
		err = errors.Join(err, fmt.Errorf("stop the programs that observe context switches: %w", closing))
	}
	return findings, err
}

func (w *Watch) addWaits(to *probe.Stacks, end probe.End, window probe.Span) error {
	known := map[int32][]uint64{}
	of := func(number int32) ([]uint64, error) {
		stack, looked := known[number]
		if looked {
			return stack, nil
		}
		stack, err := w.stacks.ProgramCounters(number)
		known[number] = stack
		return stack, err
	}
	kept := &w.waits[end]
	for _, one := range kept.list {
		length := min(one.endNS, window.EndNS) - max(one.beginNS, window.BeginNS)
		if length <= 0 {
			continue
		}
		user, err := of(one.user)
		if err != nil {
			return err
		}
		kernel, err := of(one.kernel)
		if err != nil {
			return err
		}
		to.Add(int(one.pid), one.withCaller(user), to.BelowFunction("__traceiter_", kernel), length*kept.each)
	}
	for i := range to.Record.Stacks {
		to.Record.Stacks[i].Count *= max(1, kept.each)
	}
	return nil
}
