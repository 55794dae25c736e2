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

func explainRefusal(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		// The library's own text names memory limits, which are rarely the cause. Leave it out.
		return fmt.Errorf("%s: %w: %w; run as root, or grant CAP_BPF and CAP_PERFMON", what, host.ErrUnsupported, fs.ErrPermission)
	}
	var refused syscall.Errno
	if errors.As(err, &refused) || errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%s: %w: %w; use a kernel with CONFIG_BPF_EVENTS", what, host.ErrUnsupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// SharedMemory is memory that programs in the kernel and this process can read and write. Reads and
// writes of 8 aligned bytes are atomic.
type SharedMemory struct {
	kernel *ebpf.Map
	memory *ebpf.Memory
}

func newSharedMemory(name string, bytes int) (*SharedMemory, error) {
	// Kernels before 5.11 count the map as locked memory. Without this call NewMap may fail.
	_ = rlimit.RemoveMemlock()
	const mmapable = 1 << 10 // BPF_F_MMAPABLE of include/uapi/linux/bpf.h
	kernel, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(bytes), MaxEntries: 1, Flags: mmapable,
	})
	if err != nil {
		return nil, explainRefusal("make memory that is shared with the kernel", err)
	}
	memory, err := kernel.Memory()
	if err != nil {
		return nil, errors.Join(explainRefusal("map memory of the kernel", err), kernel.Close())
	}
	return &SharedMemory{kernel: kernel, memory: memory}, nil
}

// LoadPointer returns an instruction that loads the address of the byte at offset.
func (s *SharedMemory) LoadPointer(into asm.Register, offset int) asm.Instruction {
	return asm.LoadMapValue(into, s.kernel.FD(), uint32(offset))
}

// Read copies bytes from the start of the memory.
func (s *SharedMemory) Read(into []byte) error {
	_, err := s.memory.ReadAt(into, 0)
	return err
}

// WriteUint32 writes 4 bytes at an offset.
func (s *SharedMemory) WriteUint32(offset int, value uint32) error {
	_, err := s.memory.WriteAt(binary.NativeEndian.AppendUint32(nil, value), int64(offset))
	return err
}

// WriteUint8 writes a byte at an offset.
func (s *SharedMemory) WriteUint8(offset int, value uint8) error {
	_, err := s.memory.WriteAt([]byte{value}, int64(offset))
	return err
}

// Close frees the memory. The kernel keeps it until the programs that use it are closed.
func (s *SharedMemory) Close() error { return s.kernel.Close() }

// A ThreadTable is memory with one entry per thread. Threads whose numbers differ by a multiple of
// maxThreadPlaces share an entry. So each entry begins with its thread's number (4 bytes).
type ThreadTable struct {
	*SharedMemory
	bytesEach int32
}

const maxThreadPlaces = 4096 // a power of two

// LoadPlace returns instructions that load the address of the current thread's entry.
func (t *ThreadTable) LoadPlace(into asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, ThreadRegister),
		asm.And.Imm(asm.R2, maxThreadPlaces-1),
		asm.Mul.Imm(asm.R2, t.bytesEach),
		t.LoadPointer(into, 0),
		asm.Add.Reg(into, asm.R2),
	}
}

// FindPlace returns instructions that load the address of the current thread's entry. They end the
// program if the entry belongs to another thread.
func (t *ThreadTable) FindPlace(into asm.Register) asm.Instructions {
	return append(t.LoadPlace(into), asm.LoadMem(asm.R1, into, 0, asm.Word), asm.JNE.Reg(asm.R1, ThreadRegister, ExitLabel))
}

// An EventRing is a ring buffer: programs write events, and this process reads them. Events do not
// wake the reader, because waking would take CPU time from the watched processes.
type EventRing struct {
	session Session
	ring    *ebpf.Map
	reader  *ringbuf.Reader
	lost    *SharedMemory
	record  ringbuf.Record
}

func newEventRing(bytes int) (*EventRing, error) {
	e := &EventRing{}
	e.lost = e.session.NewSharedMemory("lost", 8)
	e.ring = buildAndKeep(&e.session, func() (*ebpf.Map, error) {
		ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: uint32(bytes)})
		return ring, explainRefusal("make a BPF ring of events", err)
	})
	e.reader = buildAndKeep(&e.session, func() (*ringbuf.Reader, error) { return ringbuf.NewReader(e.ring) })
	if err := e.session.err; err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Emit returns instructions that write an event into the ring. The event is on the program's stack,
// below bytes before the stack's end.
func (e *EventRing) Emit(below int32, bytes int32) asm.Instructions {
	const quietly = 1 // BPF_RB_NO_WAKEUP of include/uapi/linux/bpf.h
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, e.ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -below),
		asm.Mov.Imm(asm.R3, bytes),
		asm.Mov.Imm(asm.R4, quietly),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, ExitLabel),
		e.lost.LoadPointer(asm.R1, 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
	}
}

// Drain calls to with each new event. The bytes of the event are valid until to returns.
func (e *EventRing) Drain(to func(event []byte)) error {
	e.reader.SetDeadline(time.Unix(1, 0)) // a time in the past makes ReadInto return at once
	for {
		switch err := e.reader.ReadInto(&e.record); {
		case err == nil:
			to(e.record.RawSample)
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		default:
			return fmt.Errorf("read a BPF ring of events: %w", err)
		}
	}
}

// UndrainedBytes returns the size of all events that Drain has not read yet.
func (e *EventRing) UndrainedBytes() int { return e.reader.AvailableBytes() }

// LostEvents returns how many events were lost because the ring was full.
func (e *EventRing) LostEvents() (int64, error) {
	var word [8]byte
	err := e.lost.Read(word[:])
	return int64(binary.NativeEndian.Uint64(word[:])), err
}

// Close frees the ring.
func (e *EventRing) Close() error { return e.session.Close() }

// A StackMap holds the call stacks that programs captured, by number. The kernel derives the number from a hash
// and refuses a second stack of the same number. So that one goes to a second map.
type StackMap struct{ maps [2]*ebpf.Map }

const (
	maxStackDepth = 127 // PERF_MAX_STACK_DEPTH of include/uapi/linux/perf_event.h
	maxStacks     = 1 << 14
)

func newStackMap() (*StackMap, error) {
	s := &StackMap{}
	for i := range s.maps {
		var err error
		if s.maps[i], err = ebpf.NewMap(&ebpf.MapSpec{
			Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: maxStackDepth * 8, MaxEntries: maxStacks,
		}); err != nil {
			return nil, errors.Join(explainRefusal("make a BPF map for call stacks", err), s.Close())
		}
	}
	return s, nil
}

// CaptureStack returns instructions that capture the current stack of user space or of the kernel.
// They put its number into R0. A negative number means that the capture failed.
func (s *StackMap) CaptureStack(user bool) (all asm.Instructions) {
	const ofUser = 1 << 8 // BPF_F_USER_STACK of include/uapi/linux/bpf.h
	flags, done := int32(0), "kernel stack captured"
	if user {
		flags, done = ofUser, "user stack captured"
	}
	capture := func(into *ebpf.Map) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, ContextRegister),
			asm.LoadMapPtr(asm.R2, into.FD()),
			asm.Mov.Imm(asm.R3, flags),
			asm.FnGetStackid.Call(),
		}
	}
	all = append(capture(s.maps[0]), asm.JSGE.Imm(asm.R0, 0, done))
	return append(append(all, capture(s.maps[1])...),
		asm.JSLT.Imm(asm.R0, 0, done),
		asm.Add.Imm(asm.R0, maxStacks),
		asm.Mov.Reg(asm.R0, asm.R0).WithSymbol(done),
	)
}

// ProgramCounters returns the program counters of a captured stack, the innermost first.
func (s *StackMap) ProgramCounters(number int32) ([]uint64, error) {
	if number < 0 {
		return nil, nil
	}
	var words [maxStackDepth * 8]byte
	if err := s.maps[number/maxStacks].Lookup(uint32(number%maxStacks), &words); err != nil {
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
func (s *StackMap) Close() (err error) {
	for _, stacks := range s.maps {
		if stacks != nil {
			err = errors.Join(err, stacks.Close())
		}
	}
	return err
}
