package gotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf/asm"

	"wirelab.dev/internal/machine/bpf"
	"wirelab.dev/internal/machine/probe"
)

// A cpuWatch records when threads of the server and of the client waited for a CPU of the machine,
// because other threads had it. A Go runtime does not know that.
type cpuWatch struct {
	session bpf.Session
	ends    *bpf.WatchedEnds
	threads *bpf.ThreadTable
	events  *bpf.EventRing

	seen   [2][]threadEvent // by end
	failed error
	stop   chan struct{}
	done   chan struct{}
}

const (
	cpuRingBytes   = 8 << 20
	cpuDrainPeriod = 50 * time.Millisecond
	maxCPUEvents   = 8 << 20
	// A thread's place holds its number and its end (4 bytes each).
	bytesPerThread = 8
	// An event holds its time (8 bytes), the thread (4 bytes), the end and the kind (2 bytes each).
	cpuEventBytes = 16
)

func startCPUWatch() (*cpuWatch, error) {
	w := &cpuWatch{stop: make(chan struct{}), done: make(chan struct{})}
	w.ends, w.threads, w.events = w.session.NewWatchedEnds(), w.session.NewThreadTable("threads", bytesPerThread), w.session.NewEventRing(cpuRingBytes)
	pid, err := bpf.FieldOffset("task_struct", "pid")
	if err == nil {
		err = w.session.Err()
	}
	if err == nil {
		w.session.Start(
			bpf.Program{Name: "leave", On: "sched_switch", Code: w.leaveProgram()},
			bpf.Program{Name: "come", On: "sched_switch", Code: w.threadProgram(threadRuns, bpf.BeginWithNextThread(pid))},
			bpf.Program{Name: "wake", On: "sched_wakeup", Code: w.threadProgram(threadWoken, bpf.BeginWithThread(0, pid))},
		)
		err = w.session.Err()
	}
	if err != nil {
		return nil, errors.Join(err, w.session.Close())
	}
	go w.collect() // ends with Stop
	return w, nil
}

// leaveProgram returns the program that runs when a watched thread leaves its CPU.
func (w *cpuWatch) leaveProgram() asm.Instructions {
	return slices.Concat(w.ends.FilterProcesses(), w.threads.LoadPlace(bpf.SpareRegister), asm.Instructions{
		asm.StoreMem(bpf.SpareRegister, 0, bpf.ThreadRegister, asm.Word),
		asm.StoreMem(bpf.SpareRegister, 4, bpf.EndRegister, asm.Word),
		asm.LSh.Imm(bpf.EndRegister, 16),
		asm.LoadMem(asm.R1, bpf.ContextRegister, 24, asm.DWord), // 4th argument of sched_switch: the state of the thread that leaves
		asm.JEq.Imm(asm.R1, 0, "ready"),
		asm.LoadMem(asm.R1, bpf.ContextRegister, 0, asm.DWord), // 1st argument: whether it was preempted
		asm.JNE.Imm(asm.R1, 0, "ready"),
		asm.Or.Imm(bpf.EndRegister, int32(threadSleeps)),
		asm.Ja.Label("emit"),
		asm.Or.Imm(bpf.EndRegister, int32(threadPreempted)).WithSymbol("ready"),
		asm.Mov.Reg(bpf.EndRegister, bpf.EndRegister).WithSymbol("emit"),
	}, w.emit())
}

// threadProgram returns a program for a known thread. begin loads the thread's number.
func (w *cpuWatch) threadProgram(kind threadEventKind, begin asm.Instructions) asm.Instructions {
	return slices.Concat(begin, w.threads.FindPlace(bpf.SpareRegister), asm.Instructions{
		asm.LoadMem(bpf.EndRegister, bpf.SpareRegister, 4, asm.Word),
		asm.LSh.Imm(bpf.EndRegister, 16),
		asm.Or.Imm(bpf.EndRegister, int32(kind)),
	}, w.emit())
}

func (w *cpuWatch) emit() asm.Instructions {
	const event = 24 // distance of the event from the stack's end, in bytes
	return slices.Concat(asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -event, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, -event+8, bpf.ThreadRegister, asm.Word),
		asm.StoreMem(asm.RFP, -event+12, bpf.EndRegister, asm.Word),
	}, w.events.Emit(event, cpuEventBytes))
}

func (w *cpuWatch) addProcess(end probe.End, pid int) error { return w.ends.AddProcess(int(end), pid) }

func (w *cpuWatch) collect() {
	defer close(w.done)
	for stopped := false; !stopped && w.failed == nil; {
		select {
		case <-w.stop:
			stopped = true
		case <-time.After(cpuDrainPeriod):
		}
		w.failed = w.events.Drain(func(bytes []byte) {
			word := binary.NativeEndian.Uint32
			what := word(bytes[12:])
			if end := int(what >> 16); len(bytes) >= cpuEventBytes && end < len(w.seen) && len(w.seen[end]) < maxCPUEvents {
				w.seen[end] = append(w.seen[end], threadEvent{int64(binary.NativeEndian.Uint64(bytes)), word(bytes[8:]), threadEventKind(what)})
			}
		})
	}
}

// stopWatching returns, for each end, when its process had no CPU.
func (w *cpuWatch) stopWatching() (times [2]cpuTimes, err error) {
	close(w.stop)
	<-w.done
	lost, err := w.events.LostEvents()
	if err = errors.Join(w.failed, err, w.session.Close()); err != nil {
		return times, fmt.Errorf("observe waits for CPUs: %w", err)
	}
	for end, seen := range w.seen {
		if lost > 0 || len(seen) == maxCPUEvents {
			return [2]cpuTimes{}, fmt.Errorf("observe waits for CPUs: %w", probe.ErrTooManyEvents)
		}
		times[end] = cpuTimesOf(seen)
	}
	return times, nil
}
