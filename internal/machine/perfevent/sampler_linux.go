package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Sample is the call stack of a thread that ran on a CPU.
type Sample struct {
	AtNS         int64 // time of CLOCK_MONOTONIC
	PID          int
	User, Kernel []uint64 // program counters, innermost first

	// Registers in user space, and the memory from the stack pointer on, valid until Drain calls its
	// function again. They are empty unless the sampler copies stacks.
	Registers Registers
	Stack     []byte
}

// Registers holds registers of a thread by their numbers in DWARF. A register that functions need not restore is zero.
type Registers struct {
	PC    uint64
	Value [32]uint64
}

// copiedRegisters lists the registers that a sampler copies: the numbers of the kernel
// (arch/*/include/uapi/asm/perf_regs.h), in ascending order, and of DWARF.
var copiedRegisters = map[string][]struct{ perf, dwarf int }{
	"amd64": {{1, 3}, {6, 6}, {7, 7}, {8, counter}, {18, 10}, {20, 12}, {21, 13}, {22, 14}, {23, 15}},
	"arm64": {
		{19, 19}, {20, 20}, {21, 21}, {22, 22}, {23, 23}, {24, 24}, {25, 25}, {26, 26}, {27, 27}, {28, 28}, {29, 29}, {30, 30}, {31, 31}, {32, counter},
	},
}[runtime.GOARCH]

const counter = -1 // the program counter, which has no number in DWARF

// A Sampler records call stacks at a constant rate of CPU time.
//
// StartSampler samples CPUs instead of threads. For a thread, the kernel restarts the event's clock
// at each context switch. At 500 samples per second, that would use most of the CPU time.
type Sampler struct {
	rings []*ring
	lost  int64
}

// StartSampler samples all running threads, perSecond times per second on each CPU. It copies stackBytes of the
// stack of each, with the registers; 0 copies nothing.
func StartSampler(perSecond, cpus, stackBytes int) (*Sampler, error) {
	s := &Sampler{}
	for cpu := range cpus {
		r, err := openRing(samplingEvent(perSecond, stackBytes), -1, cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // the CPU is offline
		}
		if err != nil {
			return nil, errors.Join(explainRefusal(err), s.Close())
		}
		s.rings = append(s.rings, r)
	}
	return s, nil
}

// StartThreadSampler samples the threads of a process, including threads that start later. It
// samples only user space, which needs fewer rights.
func StartThreadSampler(perSecond, cpus int, pid int) (*Sampler, error) {
	s := &Sampler{}
	byCPU := make([]*ring, cpus)
	if err := forEachThread(pid, func(thread int) error { return s.addThread(perSecond, thread, byCPU) }); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// addThread samples a thread with one event per CPU, because inherited events need one event per
// CPU. All events of a CPU write into one ring, because kernel.perf_event_mlock_kb limits the
// memory for rings.
func (s *Sampler) addThread(perSecond, thread int, byCPU []*ring) error {
	for cpu := range byCPU {
		event := samplingEvent(perSecond, 0)
		event.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitInherit
		var err error
		if r := byCPU[cpu]; r != nil {
			err = r.addEvent(event, thread, cpu)
		} else if r, err = openRing(event, thread, cpu); err == nil {
			byCPU[cpu], s.rings = r, append(s.rings, r)
		}
		// the CPU is offline, or the thread has ended
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

func samplingEvent(perSecond, stackBytes int) *unix.PerfEventAttr {
	event := &unix.PerfEventAttr{
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample:      uint64(perSecond),
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CALLCHAIN,
		Bits:        unix.PerfBitFreq | unix.PerfBitUseClockID | unix.PerfBitTask,
		Clockid:     unix.CLOCK_MONOTONIC,
	}
	if stackBytes > 0 {
		event.Sample_type |= unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER
		event.Sample_stack_user = uint32(stackBytes)
		for _, register := range copiedRegisters {
			event.Sample_regs_user |= 1 << register.perf
		}
	}
	return event
}

// A Fork is the start of a process, or of a thread: then parent and child have the same PID.
type Fork struct{ Parent, Child int }

// Drain calls to with each sample, and forked with each Fork, since the previous call of Drain. Each CPU
// has its own order.
func (s *Sampler) Drain(to func(Sample), forked func(Fork)) error {
	for _, r := range s.rings {
		if err := r.drain(to, forked, &s.lost); err != nil {
			return err
		}
	}
	return nil
}

// LostSamples returns the number of samples that the kernel dropped because a ring was full.
func (s *Sampler) LostSamples() int64 { return s.lost }

// Close stops the sampler.
func (s *Sampler) Close() (err error) {
	for _, r := range s.rings {
		err = errors.Join(err, r.close())
	}
	return err
}

// A ring is memory into which the kernel writes events (perf_event_open(2)).
type ring struct {
	fd     int
	shared []int // other events that write into this ring
	memory []byte
	copies bool   // the samples have copies of stacks
	spare  []byte // buffer for an event that wraps around the ring's end
}

// Sizes of a ring in pages, powers of two. A ring holds the samples of one CPU: 500 of 1 KiB, or 230 with a copy of
// the stack of 16 KiB.
const (
	ringPages      = 128
	stackRingPages = 1024
)

func openRing(event *unix.PerfEventAttr, thread, cpu int) (*ring, error) {
	fd, err := unix.PerfEventOpen(event, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	pages := ringPages
	if event.Sample_stack_user > 0 {
		pages = stackRingPages
	}
	if thread >= 0 {
		pages = 16 // ordinary users may lock little memory, and threads give few samples
	}
	memory, err := unix.Mmap(fd, 0, (1+pages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &ring{fd: fd, memory: memory, copies: event.Sample_stack_user > 0}, nil
}

func (r *ring) addEvent(event *unix.PerfEventAttr, thread, cpu int) error {
	fd, err := unix.PerfEventOpen(event, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	r.shared = append(r.shared, fd)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
		return fmt.Errorf("add an event to a ring: %w", err)
	}
	return nil
}

func (r *ring) drain(to func(Sample), forked func(Fork), lost *int64) error {
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	data := r.memory[os.Getpagesize():]
	head := atomic.LoadUint64(&control.Data_head)
	for tail := control.Data_tail; tail < head; {
		const header = 8 // bytes of the fields type, misc and size
		at := int(tail % uint64(len(data)))
		kind := binary.NativeEndian.Uint32(data[at:])
		size := int(binary.NativeEndian.Uint16(data[at+6:]))
		if size < header {
			return fmt.Errorf("read a ring of perf events: an event has %d bytes, fewer than its header", size)
		}
		event := data[at:min(at+size, len(data))]
		if len(event) < size {
			r.spare = append(append(r.spare[:0], event...), data[:size-len(event)]...)
			event = r.spare
		}
		switch kind {
		case unix.PERF_RECORD_SAMPLE:
			sample, err := parseSample(event[header:], r.copies)
			if err != nil {
				return err
			}
			to(sample)
		case unix.PERF_RECORD_FORK:
			if len(event) >= header+8 {
				word := binary.NativeEndian.Uint32
				forked(Fork{Parent: int(word(event[header+4:])), Child: int(word(event[header:]))})
			}
		case unix.PERF_RECORD_LOST:
			if len(event) >= header+16 {
				*lost += int64(binary.NativeEndian.Uint64(event[header+8:]))
			}
		}
		tail += uint64(size)
		atomic.StoreUint64(&control.Data_tail, tail)
	}
	return nil
}

// parseSample reads the fields that samplingEvent requests, in the order of perf_event_open(2): pid, tid, time, the
// number of program counters, and the program counters. copies means that registers and the stack follow.
func parseSample(body []byte, copies bool) (Sample, error) {
	const fixed = 4 + 4 + 8 + 8
	if len(body) < fixed {
		return Sample{}, fmt.Errorf("a perf sample has %d bytes, but needs %d or more", len(body), fixed)
	}
	word := binary.NativeEndian.Uint64
	s := Sample{PID: int(binary.NativeEndian.Uint32(body)), AtNS: int64(word(body[8:]))}
	counters := word(body[16:])
	if counters > uint64(len(body)-fixed)/8 {
		return Sample{}, fmt.Errorf("a perf sample of %d bytes is too short for its %d program counters", len(body), counters)
	}
	var into *[]uint64
	for i := range counters {
		pc := word(body[fixed+8*i:])
		switch int64(pc) {
		case unix.PERF_CONTEXT_KERNEL:
			into = &s.Kernel
		case unix.PERF_CONTEXT_USER:
			into = &s.User
		default:
			const contexts = -4095 // PERF_CONTEXT_MAX; the other contexts are of virtual machines
			if int64(pc) < 0 && int64(pc) >= contexts {
				into = nil
			} else if into != nil {
				*into = append(*into, pc)
			}
		}
	}
	if copies {
		return s, s.parseCopies(body[fixed+8*counters:])
	}
	return s, nil
}

// parseCopies reads the kind of the registers, which is 0 if there are none, the registers, the size of the stack's
// copy, the copy, and how much of it was copied.
func (s *Sample) parseCopies(body []byte) error {
	word := func() (value uint64) {
		if len(body) >= 8 {
			value, body = binary.NativeEndian.Uint64(body), body[8:]
		}
		return value
	}
	if word() != 0 {
		for _, register := range copiedRegisters {
			if value := word(); register.dwarf == counter {
				s.Registers.PC = value
			} else {
				s.Registers.Value[register.dwarf] = value
			}
		}
	}
	size := word()
	if size == 0 {
		return nil
	}
	if uint64(len(body)) < size || size < 8 {
		return fmt.Errorf("a perf sample has %d bytes of a stack, but says %d", len(body), size)
	}
	copied := body[:size]
	body = body[size:]
	s.Stack = copied[:min(size, word())]
	return nil
}

func (r *ring) close() error {
	err := unix.Munmap(r.memory)
	for _, fd := range append(r.shared, r.fd) {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
