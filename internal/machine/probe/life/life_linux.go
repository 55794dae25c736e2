package life

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/bpf"
	"wirelab.dev/internal/machine/probe"
)

const (
	// turnDuration is the least time for which the programs run. It is also the length of a pause.
	turnDuration = 100 * time.Millisecond
	// An event holds its time (8 bytes), the thread (4 bytes), the end and the kind. For arriving
	// data, the local port (host order) and the remote port (network order) follow. For a read that
	// returned data, the begin of the read follows. Reads without data have no event.
	eventBytes = 24
	ringBytes  = 16 << 20
	// busyTurnBytes is the size of the events of dozens of calls, each with ten events or more.
	busyTurnBytes = 16 << 10
	// maxEvents limits the stored events. It suffices for some hundred thousand calls.
	maxEvents = 4 << 20
)

const (
	// bytesPerThread is the size of a thread's entry: its number, its end, whether its current
	// system call receives data, and when that call began.
	bytesPerThread = 24
	portCount      = 1 << 16
	bytesPerPort   = 4
	maxSyscalls    = 512 // on all architectures system calls have smaller numbers
)

var _ probe.PortWatch = (*Watch)(nil)

// A Watch records the events of the server and the client.
type Watch struct {
	session bpf.Session
	ends    *bpf.WatchedEnds
	table   *bpf.ThreadTable
	calls   *bpf.SharedMemory // for each system call: syscallSends, syscallReceives or 0
	known   *bpf.SharedMemory // for each local port: 1 if the server or the client uses it
	events  *bpf.EventRing
	loaded  bpf.LoadedPrograms

	seen   []event
	came   []arrival
	turns  turns
	failed error
	stop   chan struct{}
	done   chan struct{}
}

// An arrival holds the ports of a socket that received data, and the index of its event.
type arrival struct {
	event         int
	local, remote int
}

// Start starts a Watch. If the machine does not allow it, the error wraps host.ErrUnsupported.
func Start() (probe.Watch, error) {
	w := &Watch{stop: make(chan struct{}), done: make(chan struct{})}
	w.ends, w.events, w.table = w.session.NewWatchedEnds(), w.session.NewEventRing(ringBytes), w.session.NewThreadTable("threads", bytesPerThread)
	w.calls, w.known = w.session.NewSharedMemory("calls", maxSyscalls*4), w.session.NewSharedMemory("ports", portCount*bytesPerPort)
	running, err := w.loadPrograms()
	if err != nil {
		return nil, errors.Join(err, w.session.Close())
	}
	go w.runTurns(running)
	return w, nil
}

func (w *Watch) loadPrograms() (bpf.RunningPrograms, error) {
	if err := w.session.Err(); err != nil {
		return nil, err
	}
	pid, err1 := bpf.FieldOffset("task_struct", "pid")
	local, err2 := bpf.FieldOffset("sock_common", "skc_num")
	remote, err3 := bpf.FieldOffset("sock_common", "skc_dport")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	for kind, numbers := range map[uint32][]int{syscallSends: sendSyscalls, syscallReceives: receiveSyscalls} {
		for _, number := range numbers {
			if err := w.calls.WriteUint32(4*number, kind); err != nil {
				return nil, err
			}
		}
	}
	w.loaded = w.session.Load(
		bpf.Program{Name: "enter", On: "sys_enter", Code: w.enterProgram()},
		bpf.Program{Name: "exit", On: "sys_exit", Code: w.exitProgram()},
		bpf.Program{Name: "arrive", On: "sk_data_ready", Code: w.arrivalProgram(local, remote)},
		bpf.Program{Name: "run", On: "sched_switch", Code: w.threadRunsProgram(pid)},
	)
	if err := w.session.Err(); err != nil {
		return nil, err
	}
	return w.loaded.Attach()
}

const (
	syscallSends    = 1
	syscallReceives = 2
)

const eventStackOffset = 32 // distance of the event from the end of a program's stack, in bytes

// emitEvent returns instructions that write an event of a kind. The caller must have put the thread
// and the end into their registers.
func (w *Watch) emitEvent(what eventKind) asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -eventStackOffset, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, -eventStackOffset+8, bpf.ThreadRegister, asm.Word),
		asm.LSh.Imm(bpf.EndRegister, 8),
		asm.Or.Imm(bpf.EndRegister, int32(what)),
		asm.StoreMem(asm.RFP, -eventStackOffset+12, bpf.EndRegister, asm.Word),
	}, w.events.Emit(eventStackOffset, eventBytes))
}

// clearPorts sets the event's ports to 0, because only events of arriving data have ports.
var clearPorts = asm.Instructions{
	asm.StoreImm(asm.RFP, -eventStackOffset+16, 0, asm.Word),
	asm.StoreImm(asm.RFP, -eventStackOffset+20, 0, asm.Word),
}

// enterProgram returns the program that runs when a system call begins. It writes an event if the
// call sends data. It stores when a receiving call begins.
func (w *Watch) enterProgram() asm.Instructions {
	return slices.Concat(w.ends.FilterProcesses(), w.table.LoadPlace(bpf.SpareRegister), asm.Instructions{
		asm.StoreMem(bpf.SpareRegister, 0, bpf.ThreadRegister, asm.Word),
		asm.StoreMem(bpf.SpareRegister, 4, bpf.EndRegister, asm.Word),
		asm.StoreImm(bpf.SpareRegister, 8, 0, asm.Word),
		asm.LoadMem(asm.R1, bpf.ContextRegister, 8, asm.DWord), // second argument of sys_enter
		asm.JGE.Imm(asm.R1, maxSyscalls, bpf.ExitLabel),
		asm.Mul.Imm(asm.R1, 4),
		w.calls.LoadPointer(asm.R2, 0),
		asm.Add.Reg(asm.R2, asm.R1),
		asm.LoadMem(asm.R1, asm.R2, 0, asm.Word),
		asm.JEq.Imm(asm.R1, 0, bpf.ExitLabel),
	}, clearPorts, asm.Instructions{
		asm.JEq.Imm(asm.R1, syscallSends, "sends"),
		asm.StoreImm(bpf.SpareRegister, 8, syscallReceives, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(bpf.SpareRegister, 16, asm.R0, asm.DWord),
		asm.Ja.Label(bpf.ExitLabel),
		asm.Mov.Reg(bpf.ThreadRegister, bpf.ThreadRegister).WithSymbol("sends"),
	}, w.emitEvent(writeEnters))
}

// exitProgram returns the program that writes an event when a system call has received data.
func (w *Watch) exitProgram() asm.Instructions {
	return slices.Concat(w.ends.FilterProcesses(), w.table.FindPlace(bpf.SpareRegister), asm.Instructions{
		asm.LoadMem(asm.R1, bpf.SpareRegister, 8, asm.Word),
		asm.JNE.Imm(asm.R1, syscallReceives, bpf.ExitLabel),
		// result of the call: second argument of sys_exit
		asm.LoadMem(asm.R1, bpf.ContextRegister, 8, asm.DWord),
		asm.JSLE.Imm(asm.R1, 0, bpf.ExitLabel),
		asm.LoadMem(asm.R1, bpf.SpareRegister, 16, asm.DWord),
		asm.StoreMem(asm.RFP, -eventStackOffset+16, asm.R1, asm.DWord),
	}, w.emitEvent(readReturns))
}

// otherProcess is the event's end if neither the server nor the client was running.
const otherProcess = 2

// arrivalProgram returns the program that writes an event when data arrives at a socket. If neither
// the server nor the client is running, the ports identify the socket.
func (w *Watch) arrivalProgram(local, remote int32) asm.Instructions {
	return slices.Concat(w.ends.FilterOrJump("stranger"), asm.Instructions{
		asm.Ja.Label("read"),
		asm.Mov.Imm(bpf.EndRegister, otherProcess).WithSymbol("stranger"),
		asm.LoadMem(bpf.SpareRegister, bpf.ContextRegister, 0, asm.DWord).WithSymbol("read"), // struct sock
	}, clearPorts, bpf.CopyFromKernel(bpf.SpareRegister, local, 2, eventStackOffset-16), bpf.CopyFromKernel(bpf.SpareRegister, remote, 2, eventStackOffset-18), asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, -eventStackOffset+16, asm.Half),
	}, w.loadPortAddress(asm.R2, asm.R1), asm.Instructions{
		asm.JNE.Imm(bpf.EndRegister, otherProcess, "learn"),
		asm.LoadMem(asm.R1, asm.R2, 0, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "emit"),
		asm.LoadMem(asm.R1, asm.RFP, -eventStackOffset+18, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
	}, w.loadPortAddress(asm.R2, asm.R1), asm.Instructions{
		asm.LoadMem(asm.R1, asm.R2, 0, asm.Word),
		asm.JEq.Imm(asm.R1, 0, bpf.ExitLabel),
		asm.Ja.Label("emit"),
		asm.StoreImm(asm.R2, 0, 1, asm.Word).WithSymbol("learn"),
		asm.Mov.Reg(bpf.EndRegister, bpf.EndRegister).WithSymbol("emit"),
	}, w.emitEvent(dataArrives))
}

func (w *Watch) loadPortAddress(into, port asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mul.Imm(port, bytesPerPort),
		w.known.LoadPointer(into, 0),
		asm.Add.Reg(into, port),
	}
}

// SetServerPort sets the port of the server. After this call, the probe records all data that
// arrives at this port or from it.
func (w *Watch) SetServerPort(port int) error { return w.known.WriteUint32(bytesPerPort*port, 1) }

// threadRunsProgram returns the program that writes an event when a thread gets a CPU, if the
// thread has made system calls before.
func (w *Watch) threadRunsProgram(pid int32) asm.Instructions {
	return slices.Concat(bpf.BeginWithNextThread(pid), w.table.FindPlace(bpf.SpareRegister), asm.Instructions{
		asm.LoadMem(bpf.EndRegister, bpf.SpareRegister, 4, asm.Word),
	}, clearPorts, w.emitEvent(threadRuns))
}

func (w *Watch) runTurns(running bpf.RunningPrograms) {
	defer close(w.done)
	for w.failed == nil {
		began := clock.Now()
		stopped := w.waitForTurnEnd()
		ended := clock.Now()
		w.failed = running.Close()
		off := clock.Now() // on a busy machine, tens of milliseconds later
		lost, err := w.drain()
		w.failed = errors.Join(w.failed, err)
		turn := probe.Span{BeginNS: began, EndNS: ended}
		if lost {
			w.turns.lost = append(w.turns.lost, turn)
		} else {
			w.turns.on = append(w.turns.on, turn)
		}
		if stopped || w.waitTurnDuration() || w.failed != nil {
			return
		}
		w.turns.off = append(w.turns.off, probe.Span{BeginNS: off, EndNS: clock.Now()})
		running, w.failed = w.loaded.Attach()
	}
}

// waitForTurnEnd waits until the programs have run long enough. While calls are slow and few, the
// programs continue to run, because watching then adds little to the calls' time.
func (w *Watch) waitForTurnEnd() (stopped bool) {
	for waiting := w.events.UndrainedBytes(); ; {
		stopped = w.waitTurnDuration()
		now := w.events.UndrainedBytes()
		if stopped || now-waiting > busyTurnBytes || now > ringBytes/2 {
			return stopped
		}
		waiting = now
	}
}

func (w *Watch) waitTurnDuration() (stopped bool) {
	select {
	case <-w.stop:
		return true
	case <-time.After(turnDuration):
		return false
	}
}

// drain stores the new events, and reports whether events were lost.
func (w *Watch) drain() (lost bool, _ error) {
	before, err := w.events.LostEvents()
	if err != nil {
		return false, err
	}
	err = w.events.Drain(func(bytes []byte) {
		if len(bytes) < eventBytes || len(w.seen) >= maxEvents {
			return
		}
		what := binary.NativeEndian.Uint32(bytes[12:])
		kind, end := eventKind(what), probe.End(what>>8)
		thread := binary.NativeEndian.Uint32(bytes[8:])
		switch kind {
		case readReturns:
			w.seen = append(w.seen, event{
				atNS: int64(binary.NativeEndian.Uint64(bytes[16:])), thread: thread, kind: readEnters, end: end,
			})
		case dataArrives:
			w.came = append(w.came, arrival{
				event: len(w.seen),
				local: int(binary.NativeEndian.Uint16(bytes[16:])), remote: int(binary.BigEndian.Uint16(bytes[18:])),
			})
		}
		w.seen = append(w.seen, event{
			atNS: int64(binary.NativeEndian.Uint64(bytes)), thread: thread, kind: kind, end: end,
		})
	})
	after, lostErr := w.events.LostEvents()
	return after > before || len(w.seen) >= maxEvents, errors.Join(err, lostErr)
}

// Coverage returns how the probe works here.
func (*Watch) Coverage() probe.Coverage {
	return probe.Coverage{Method: fmt.Sprintf("BPF on system calls, arriving data and switches, in turns of %v", turnDuration)}
}

// AddProcess starts to watch a process of the server or the client.
func (w *Watch) AddProcess(end probe.End, pid int) error { return w.ends.AddProcess(int(end), pid) }

// Stop returns the duration of each stage of each call.
func (w *Watch) Stop(m probe.MeasuredWindow) (probe.Findings, error) {
	close(w.stop)
	<-w.done
	if err := errors.Join(w.failed, w.session.Close()); err != nil {
		return probe.Findings{}, fmt.Errorf("observe the stages of calls: %w", err)
	}
	w.assignArrivals(m.Port)
	slices.SortStableFunc(w.seen, func(a, b event) int { return cmp.Compare(a.atNS, b.atNS) })
	life := divideCalls(m.Calls, m.Handled, w.seen, w.turns)
	life.Method = w.Coverage().Method
	if len(m.Calls) > 0 && len(m.Handled) == 0 {
		life.Missing = append(life.Missing, "all calls: this server does not record when its handlers run; use a server of wirelab")
	}
	return probe.Findings{Life: life}, nil
}

// assignArrivals finds out whether data arrived at the server or the client. It uses the server's
// port. If a client's socket has no remote port, the data arrived at the side that did not send.
func (w *Watch) assignArrivals(port int) {
	for _, a := range w.came {
		e := &w.seen[a.event]
		switch {
		case a.local == port:
			e.end = probe.Server
		case a.remote == port, e.end == probe.Server, e.end == otherProcess:
			e.end = probe.Client
		default:
			e.end = probe.Server
		}
	}
}

// System calls that send data to sockets, and system calls that receive data from sockets.
var (
	sendSyscalls    = []int{unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_SENDFILE, unix.SYS_SPLICE}
	receiveSyscalls = []int{unix.SYS_READ, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG}
)
