package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"wirelab.dev/internal/machine/host"
)

// unsupported returns the error for a refusal of the kernel, or nil without one.
func unsupported(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		// The library's text guesses at limits of memory, mostly wrongly.
		return fmt.Errorf("%s: %w: %w; run as root, or grant CAP_BPF and CAP_PERFMON", what, host.ErrUnsupported, fs.ErrPermission)
	}
	var refused syscall.Errno
	if errors.As(err, &refused) || errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%s: %w: %w; it needs a kernel with CONFIG_BPF_EVENTS", what, host.ErrUnsupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Shared is memory that programs and this process both read and write. A program reaches
// it without a call. Words of 8 bytes are read and written whole.
type Shared struct {
	kernel *ebpf.Map
	memory *ebpf.Memory
}

func newShared(name string, bytes int) (*Shared, error) {
	// Kernels before 5.11 charge it to the locked memory. If the limit stays, making the map
	// fails.
	_ = rlimit.RemoveMemlock()
	const mmapable = 1 << 10 // BPF_F_MMAPABLE of include/uapi/linux/bpf.h
	kernel, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(bytes), MaxEntries: 1, Flags: mmapable,
	})
	if err != nil {
		return nil, unsupported("share memory with the kernel", err)
	}
	memory, err := kernel.Memory()
	if err != nil {
		return nil, errors.Join(unsupported("map memory of the kernel", err), kernel.Close())
	}
	return &Shared{kernel: kernel, memory: memory}, nil
}

// Pointer returns the instruction that loads the address of the byte at offset.
func (s *Shared) Pointer(into asm.Register, offset int) asm.Instruction {
	return asm.LoadMapValue(into, s.kernel.FD(), uint32(offset))
}

// Read copies from the start of the memory.
func (s *Shared) Read(into []byte) error {
	_, err := s.memory.ReadAt(into, 0)
	return err
}

// Put32 writes a word of 4 bytes.
func (s *Shared) Put32(offset int, value uint32) error {
	_, err := s.memory.WriteAt(binary.NativeEndian.AppendUint32(nil, value), int64(offset))
	return err
}

// Close frees the memory when the programs that use it have gone too.
func (s *Shared) Close() error { return s.kernel.Close() }

// A Table is memory with one place per thread. Two threads whose numbers differ by a multiple of
// mostThreads share a place, so a place begins with its thread's number (4 bytes).
type Table struct {
	*Shared
	bytesEach int32
}

const mostThreads = 4096 // a power of two

// Place loads the address of the thread's place.
func (t *Table) Place(into asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, Thread),
		asm.And.Imm(asm.R2, mostThreads-1),
		asm.Mul.Imm(asm.R2, t.bytesEach),
		t.Pointer(into, 0),
		asm.Add.Reg(into, asm.R2),
	}
}

// Find loads the address of the thread's place. If another thread has it, the program ends.
func (t *Table) Find(into asm.Register) asm.Instructions {
	return append(t.Place(into), asm.LoadMem(asm.R1, into, 0, asm.Word), asm.JNE.Reg(asm.R1, Thread, Out))
}

// Events is a ring that programs write to and this process reads from. An event wakes no reader:
// waking would take CPU time from the watched processes.
type Events struct {
	session Session
	ring    *ebpf.Map
	reader  *ringbuf.Reader
	lost    *Shared
	record  ringbuf.Record
}

func newEvents(bytes int) (*Events, error) {
	e := &Events{}
	e.lost = e.session.Shared("lost", 8)
	e.ring = keep(&e.session, func() (*ebpf.Map, error) {
		ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: uint32(bytes)})
		return ring, unsupported("make a ring of events", err)
	})
	e.reader = keep(&e.session, func() (*ringbuf.Reader, error) { return ringbuf.NewReader(e.ring) })
	if err := e.session.err; err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Emit writes an event that lies on the program's stack, the given bytes below its end.
func (e *Events) Emit(below int32, bytes int32) asm.Instructions {
	const quietly = 1 // BPF_RB_NO_WAKEUP of include/uapi/linux/bpf.h
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, e.ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -below),
		asm.Mov.Imm(asm.R3, bytes),
		asm.Mov.Imm(asm.R4, quietly),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, Out),
		e.lost.Pointer(asm.R1, 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
	}
}

// Drain passes on the events since the last call. Each is valid until to returns.
func (e *Events) Drain(to func(event []byte)) error {
	e.reader.SetDeadline(time.Unix(1, 0)) // a time in the past: it does not wait
	for {
		switch err := e.reader.ReadInto(&e.record); {
		case err == nil:
			to(e.record.RawSample)
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		default:
			return fmt.Errorf("read a ring of events: %w", err)
		}
	}
}

// Waiting returns the number of bytes of events that have not been drained.
func (e *Events) Waiting() int { return e.reader.AvailableBytes() }

// Lost returns the number of events for which the ring had no room.
func (e *Events) Lost() (int64, error) {
	var word [8]byte
	err := e.lost.Read(word[:])
	return int64(binary.NativeEndian.Uint64(word[:])), err
}

// Close frees the ring.
func (e *Events) Close() error { return e.session.Close() }

// Stacks holds the call stacks that programs found, by numbers.
type Stacks struct{ stacks *ebpf.Map }

const (
	deepest    = 127 // PERF_MAX_STACK_DEPTH of include/uapi/linux/perf_event.h
	mostStacks = 1 << 14
)

func newStacks() (*Stacks, error) {
	stacks, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: deepest * 8, MaxEntries: mostStacks,
	})
	return &Stacks{stacks}, unsupported("keep call stacks", err)
}

// Take puts the number of the current stack, of user space or of the kernel, into R0. The number
// is negative if the kernel could not take the stack.
func (s *Stacks) Take(user bool) asm.Instructions {
	const ofUser = 1 << 8 // BPF_F_USER_STACK of include/uapi/linux/bpf.h
	flags := int32(0)
	if user {
		flags = ofUser
	}
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, Context),
		asm.LoadMapPtr(asm.R2, s.stacks.FD()),
		asm.Mov.Imm(asm.R3, flags),
		asm.FnGetStackid.Call(),
	}
}

// Of returns a stack's program counters, the innermost first.
func (s *Stacks) Of(number int32) ([]uint64, error) {
	if number < 0 {
		return nil, nil
	}
	var words [deepest * 8]byte
	if err := s.stacks.Lookup(uint32(number), &words); err != nil {
		return nil, fmt.Errorf("look up call stack %d: %w", number, err)
	}
	var stack []uint64
	for i := 0; i < len(words); i += 8 {
		pc := binary.NativeEndian.Uint64(words[i:])
		if pc == 0 {
			break
		}
		stack = append(stack, pc)
	}
	return stack, nil
}

// Close frees the stacks.
func (s *Stacks) Close() error { return s.stacks.Close() }
