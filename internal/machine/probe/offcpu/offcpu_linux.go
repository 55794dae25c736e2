// Package offcpu takes the call stacks of a server and its client while they are off the CPU, and
// for how long: programs in the kernel observe the switches of threads.
//
// A thread that is off its CPU sleeps, waits for something, or lost the CPU to others. The probe
// sees threads of the kernel, not goroutines: if a goroutine waits for another one, its thread
// goes on with a third one, or sleeps if none is ready.
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

// An event is a time off the CPU, as the program writes it: the instants of its begin and
// its end, the numbers of the stacks in user space and in the kernel, and the end of the wire.
const (
	eventBytes = 32
	ringBytes  = 16 << 20
	drainEach  = 50 * time.Millisecond
	// mostWaits limits the waits that are kept per end: a minute of a busy one.
	mostWaits = 1 << 21
)

// threadBytes is the size of a place for a thread that is off its CPU: its number, its end, since
// when, and its stacks. If two threads share a place, only the later one counts.
const threadBytes = 32

// A Watch observes both ends.
type Watch struct {
	session bpf.Session
	ends    *bpf.Ends
	off     *bpf.Table
	stacks  *bpf.Stacks
	events  *bpf.Events

	waits [2][]wait
	*probe.Collector
}

// A wait is a time off the CPU.
type wait struct {
	probe.Span
	user, kernel int32 // numbers of stacks
}

// Start starts the programs.
func Start() (probe.Watch, error) {
	pid, err := bpf.Offset("task_struct", "pid")
	if err != nil {
		return nil, err
	}
	w := &Watch{}
	w.ends, w.off, w.stacks, w.events = w.session.Ends(), w.session.Table("off", threadBytes), w.session.Stacks(), w.session.Events(ringBytes)
	if w.session.Err() == nil {
		w.session.Start(
			bpf.Program{Name: "leave", On: "sched_switch", Code: w.leave()},
			bpf.Program{Name: "come", On: "sched_switch", Code: w.come(pid)},
		)
	}
	if err := w.session.Err(); err != nil {
		return nil, errors.Join(err, w.session.Close())
	}
	w.Collector = probe.Collect(drainEach, w.drain)
	return w, nil
}

// leave notes that the running thread is about to leave its CPU.
func (w *Watch) leave() asm.Instructions {
	const place = bpf.Spare
	return slices.Concat(w.ends.Filter(), w.off.Place(place), asm.Instructions{
		asm.StoreMem(place, 4, bpf.End, asm.Word),
	}, w.stacks.Take(true), asm.Instructions{
		asm.StoreMem(place, 16, asm.R0, asm.Word),
	}, w.stacks.Take(false), asm.Instructions{
		asm.StoreMem(place, 20, asm.R0, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(place, 8, asm.R0, asm.DWord),
		asm.StoreMem(place, 0, bpf.Thread, asm.Word),
	})
}

// come writes the event of the thread that comes next, if it is watched.
func (w *Watch) come(pid int32) asm.Instructions {
	const (
		place = bpf.Spare
		event = 32 // below the end of the stack
	)
	return slices.Concat(bpf.NextThread(pid), w.off.Find(place), asm.Instructions{
		asm.StoreImm(place, 0, 0, asm.Word),
		asm.LoadMem(asm.R1, place, 8, asm.DWord),
		asm.StoreMem(asm.RFP, -event, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, place, 16, asm.DWord), // both stacks
		asm.StoreMem(asm.RFP, -event+16, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, place, 4, asm.Word),
		asm.StoreMem(asm.RFP, -event+24, asm.R1, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -event+8, asm.R0, asm.DWord),
	}, w.events.Emit(event, eventBytes))
}

// drain keeps the events.
func (w *Watch) drain([2]int) error {
	full := false
	err := w.events.Drain(func(event []byte) {
		if len(event) < eventBytes {
			return
		}
		word := binary.NativeEndian.Uint64
		end := word(event[24:])
		switch {
		case end >= uint64(len(w.waits)):
		case len(w.waits[end]) == mostWaits:
			full = true
		default:
			w.waits[end] = append(w.waits[end], wait{
				Span: probe.Span{BeginNS: int64(word(event)), EndNS: int64(word(event[8:]))},
				user: int32(word(event[16:])), kernel: int32(word(event[16:]) >> 32),
			})
		}
	})
	if full {
		return errors.Join(err, fmt.Errorf("%d waits of an end: %w", mostWaits, probe.ErrTooMuch))
	}
	return err
}

// Coverage returns how it works.
func (*Watch) Coverage() probe.Coverage {
	return probe.Coverage{Method: "BPF on every switch of a thread"}
}

// Process sets the process at an end.
func (w *Watch) Process(end probe.End, pid int) error {
	return w.Collector.Process(end, pid, func() error { return w.ends.Watch(int(end), pid) })
}

// Stop returns the waits in the window.
func (w *Watch) Stop(window probe.Measured) (findings probe.Findings, err error) {
	programs, err := w.Collector.Stop()
	lost, lostErr := w.events.Lost()
	how := w.Coverage()
	if _, err := symbol.OfKernel(); err != nil {
		how.Missing = []string{err.Error()}
	}
	if err = errors.Join(err, lostErr); err == nil {
		findings, err = probe.Gather(programs, how, lost, func(end int, to *probe.Stacks) error {
			return w.add(to, w.waits[end], window.Span)
		})
	}
	if closing := w.session.Close(); closing != nil {
		err = errors.Join(err, fmt.Errorf("stop observing switches: %w", closing))
	}
	return findings, err
}

// add adds the parts of the waits that lie in the window.
func (w *Watch) add(to *probe.Stacks, waits []wait, window probe.Span) error {
	known := map[int32][]uint64{}
	of := func(number int32) ([]uint64, error) {
		stack, looked := known[number]
		if looked {
			return stack, nil
		}
		stack, err := w.stacks.Of(number)
		known[number] = stack
		return stack, err
	}
	for _, one := range waits {
		length := min(one.EndNS, window.EndNS) - max(one.BeginNS, window.BeginNS)
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
		to.Add(user, to.Under("__traceiter_", kernel), length)
	}
	return nil
}
