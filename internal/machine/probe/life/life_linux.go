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
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

const (
	// turn is the shortest time for which the programs run, and the time between two turns.
	turn = 100 * time.Millisecond
	// An event has its instant, then the thread (4 bytes), the end and the kind. Arriving data
	// adds the local port (host order) and the remote port (network order); a read that returns
	// adds when it entered. Most reads find nothing, and have no event.
	eventBytes = 24
	ringBytes  = 16 << 20
	// busyBytes is the size of the events of some dozens of calls, with at least ten events each.
	busyBytes = 16 << 10
	// mostEvents limits the events that are kept: those of some hundred thousand calls.
	mostEvents = 4 << 20
)

const (
	// threadBytes is the size of a thread's place: its number, its end, whether its current
	// system call reads, and since when.
	threadBytes = 24
	ports       = 1 << 16
	portBytes   = 4
	kinds       = 512 // system calls have smaller numbers on all architectures
)

var _ probe.PortWatch = (*Watch)(nil)

// A Watch observes both ends.
type Watch struct {
	session bpf.Session
	ends    *bpf.Ends
	table   *bpf.Table
	calls   *bpf.Shared // a word for each system call: 1 if it sends, 2 if it receives
	known   *bpf.Shared // a word for each port: 1 if a socket of an end has it
	events  *bpf.Events
	loaded  bpf.Loaded

	seen   []event
	came   []arrival
	on     []probe.Span
	failed error
	stop   chan struct{}
	done   chan struct{}
}

// An arrival is data that came to a socket: the number of its event, and the ports.
type arrival struct {
	event         int
	local, remote int
}

// Start starts a watch of as many stages as the machine allows.
func Start() (probe.Watch, error) {
	watch, err := start()
	if errors.Is(err, host.ErrUnsupported) {
		return StartCoarse(err), nil
	}
	if err != nil {
		return nil, err
	}
	return watch, nil
}

// start prepares and starts the programs.
func start() (*Watch, error) {
	w := &Watch{stop: make(chan struct{}), done: make(chan struct{})}
	w.ends, w.events, w.table = w.session.Ends(), w.session.Events(ringBytes), w.session.Table("threads", threadBytes)
	w.calls, w.known = w.session.Shared("calls", kinds*4), w.session.Shared("ports", ports*portBytes)
	running, err := w.load()
	if err != nil {
		return nil, errors.Join(err, w.session.Close())
	}
	go w.turns(running)
	return w, nil
}

// load makes the kernel check the programs, and starts their first turn, to test that they run.
func (w *Watch) load() (bpf.Running, error) {
	if err := w.session.Err(); err != nil {
		return nil, err
	}
	pid, err1 := bpf.Offset("task_struct", "pid")
	local, err2 := bpf.Offset("sock_common", "skc_num")
	remote, err3 := bpf.Offset("sock_common", "skc_dport")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	for kind, numbers := range map[uint32][]int{sends: sending, receives: receiving} {
		for _, number := range numbers {
			if err := w.calls.Put32(4*number, kind); err != nil {
				return nil, err
			}
		}
	}
	w.loaded = w.session.Load(
		bpf.Program{Name: "enter", On: "sys_enter", Code: w.enter()},
		bpf.Program{Name: "exit", On: "sys_exit", Code: w.exit()},
		bpf.Program{Name: "arrive", On: "sk_data_ready", Code: w.arrive(local, remote)},
		bpf.Program{Name: "run", On: "sched_switch", Code: w.runs(pid)},
	)
	if err := w.session.Err(); err != nil {
		return nil, err
	}
	return w.loaded.Run()
}

const (
	sends    = 1
	receives = 2
)

const onStack = 32 // an event, below the end of a program's stack

// emit writes an event of a kind, with the thread and the end in the registers.
func (w *Watch) emit(what kind) asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -onStack, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, -onStack+8, bpf.Thread, asm.Word),
		asm.LSh.Imm(bpf.End, 8),
		asm.Or.Imm(bpf.End, int32(what)),
		asm.StoreMem(asm.RFP, -onStack+12, bpf.End, asm.Word),
	}, w.events.Emit(onStack, eventBytes))
}

// none fills the fields of an event that only arriving data uses.
var none = asm.Instructions{
	asm.StoreImm(asm.RFP, -onStack+16, 0, asm.Word),
	asm.StoreImm(asm.RFP, -onStack+20, 0, asm.Word),
}

// enter notes the thread, and system calls that send or receive.
func (w *Watch) enter() asm.Instructions {
	return slices.Concat(w.ends.Filter(), w.table.Place(bpf.Spare), asm.Instructions{
		asm.StoreMem(bpf.Spare, 0, bpf.Thread, asm.Word),
		asm.StoreMem(bpf.Spare, 4, bpf.End, asm.Word),
		asm.StoreImm(bpf.Spare, 8, 0, asm.Word),
		asm.LoadMem(asm.R1, bpf.Context, 8, asm.DWord), // the second argument of sys_enter
		asm.JGE.Imm(asm.R1, kinds, bpf.Out),
		asm.Mul.Imm(asm.R1, 4),
		w.calls.Pointer(asm.R2, 0),
		asm.Add.Reg(asm.R2, asm.R1),
		asm.LoadMem(asm.R1, asm.R2, 0, asm.Word),
		asm.JEq.Imm(asm.R1, 0, bpf.Out),
	}, none, asm.Instructions{
		asm.JEq.Imm(asm.R1, sends, "sends"),
		asm.StoreImm(bpf.Spare, 8, receives, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(bpf.Spare, 16, asm.R0, asm.DWord),
		asm.Ja.Label(bpf.Out),
		asm.Mov.Reg(bpf.Thread, bpf.Thread).WithSymbol("sends"),
	}, w.emit(writeEnters))
}

// exit notes system calls that have received data.
func (w *Watch) exit() asm.Instructions {
	return slices.Concat(w.ends.Filter(), w.table.Find(bpf.Spare), asm.Instructions{
		asm.LoadMem(asm.R1, bpf.Spare, 8, asm.Word),
		asm.JNE.Imm(asm.R1, receives, bpf.Out),
		asm.LoadMem(asm.R1, bpf.Context, 8, asm.DWord), // its result, the second argument of sys_exit
		asm.JSLE.Imm(asm.R1, 0, bpf.Out),
		asm.LoadMem(asm.R1, bpf.Spare, 16, asm.DWord),
		asm.StoreMem(asm.RFP, -onStack+16, asm.R1, asm.DWord),
	}, w.emit(readReturns))
}

// stranger replaces the number of the end if another process is running.
const stranger = 2

// arrive notes data at a socket. The kernel may deliver data while another thread than the sender
// runs: on a timer, or under much load. Then the ports identify the socket.
func (w *Watch) arrive(local, remote int32) asm.Instructions {
	return slices.Concat(w.ends.FilterOr("stranger"), asm.Instructions{
		asm.Ja.Label("read"),
		asm.Mov.Imm(bpf.End, stranger).WithSymbol("stranger"),
		asm.LoadMem(bpf.Spare, bpf.Context, 0, asm.DWord).WithSymbol("read"), // struct sock
	}, none, bpf.ReadKernel(bpf.Spare, local, 2, onStack-16), bpf.ReadKernel(bpf.Spare, remote, 2, onStack-18), asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, -onStack+16, asm.Half),
	}, w.port(asm.R2, asm.R1), asm.Instructions{
		asm.JNE.Imm(bpf.End, stranger, "learn"),
		asm.LoadMem(asm.R1, asm.R2, 0, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "emit"),
		asm.LoadMem(asm.R1, asm.RFP, -onStack+18, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
	}, w.port(asm.R2, asm.R1), asm.Instructions{
		asm.LoadMem(asm.R1, asm.R2, 0, asm.Word),
		asm.JEq.Imm(asm.R1, 0, bpf.Out),
		asm.Ja.Label("emit"),
		asm.StoreImm(asm.R2, 0, 1, asm.Word).WithSymbol("learn"),
		asm.Mov.Reg(bpf.End, bpf.End).WithSymbol("emit"),
	}, w.emit(dataArrives))
}

// port loads the address of a port's word in the table of known ports.
func (w *Watch) port(into, port asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mul.Imm(port, portBytes),
		w.known.Pointer(into, 0),
		asm.Add.Reg(into, port),
	}
}

// Listens sets the port of the server. All data to and from it is watched.
func (w *Watch) Listens(port int) error { return w.known.Put32(portBytes*port, 1) }

// runs notes that a thread gets a CPU, if the thread has made system calls.
func (w *Watch) runs(pid int32) asm.Instructions {
	return slices.Concat(bpf.NextThread(pid), w.table.Find(bpf.Spare), asm.Instructions{
		asm.LoadMem(bpf.End, bpf.Spare, 4, asm.Word),
	}, none, w.emit(threadRuns))
}

// turns starts and stops the programs in turn, until Stop.
func (w *Watch) turns(running bpf.Running) {
	defer close(w.done)
	for w.failed == nil {
		began := clock.Now()
		stopped := w.look()
		ended := clock.Now()
		w.failed = running.Close()
		lost, err := w.drain()
		w.failed = errors.Join(w.failed, err)
		if !lost { // the times of lost events are unknown
			w.on = append(w.on, probe.Span{BeginNS: began, EndNS: ended})
		}
		if stopped || w.wait() || w.failed != nil {
			return
		}
		running, w.failed = w.loaded.Run()
	}
}

// look lets the programs run for a turn. The turn goes on while calls are so slow that few or none
// lie within it: watching then adds little to their time.
func (w *Watch) look() (stopped bool) {
	for waiting := w.events.Waiting(); ; {
		stopped = w.wait()
		now := w.events.Waiting()
		if stopped || now-waiting > busyBytes || now > ringBytes/2 {
			return stopped
		}
		waiting = now
	}
}

func (w *Watch) wait() (stopped bool) {
	select {
	case <-w.stop:
		return true
	case <-time.After(turn):
		return false
	}
}

// drain keeps the events of a turn, and reports whether any was lost.
func (w *Watch) drain() (lost bool, _ error) {
	before, err := w.events.Lost()
	if err != nil {
		return false, err
	}
	err = w.events.Drain(func(bytes []byte) {
		if len(bytes) < eventBytes || len(w.seen) >= mostEvents {
			return
		}
		what := binary.NativeEndian.Uint32(bytes[12:])
		kind, end := kind(what), probe.End(what>>8)
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
	after, lostErr := w.events.Lost()
	return after > before || len(w.seen) >= mostEvents, errors.Join(err, lostErr)
}

// Coverage returns how it works.
func (*Watch) Coverage() probe.Coverage {
	return probe.Coverage{Method: fmt.Sprintf("BPF on system calls, arriving data and switches, by turns of %v", turn)}
}

// Process sets the process at an end.
func (w *Watch) Process(end probe.End, pid int) error { return w.ends.Watch(int(end), pid) }

// Stop returns the stages of the calls.
func (w *Watch) Stop(m probe.Measured) (probe.Findings, error) {
	close(w.stop)
	<-w.done
	if err := errors.Join(w.failed, w.session.Close()); err != nil {
		return probe.Findings{}, fmt.Errorf("observe calls: %w", err)
	}
	w.settle(m.Port)
	slices.SortStableFunc(w.seen, func(a, b event) int { return cmp.Compare(a.atNS, b.atNS) })
	return found(tell(m.Calls, m.Handled, w.seen, w.on), w.Coverage(), m), nil
}

// settle finds the socket at which data arrived: by the server's port, or, for a client's socket
// without a remote port, as the other end of the sender's.
func (w *Watch) settle(port int) {
	for _, a := range w.came {
		e := &w.seen[a.event]
		switch {
		case a.local == port:
			e.end = probe.Server
		case a.remote == port, e.end == probe.Server, e.end == stranger:
			e.end = probe.Client
		default:
			e.end = probe.Server
		}
	}
}

// System calls that send to sockets, and that receive from them.
var (
	sending   = []int{unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_SENDFILE, unix.SYS_SPLICE}
	receiving = []int{unix.SYS_READ, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG}
)
