package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Sample is a call stack that was on a CPU.
type Sample struct {
	AtNS         int64 // of CLOCK_MONOTONIC
	PID          int
	User, Kernel []uint64 // program counters, the innermost first
}

// A Sampler takes call stacks at a steady rate of CPU time.
//
// It samples CPUs and not threads: the kernel starts the clock of a thread's event anew at each
// switch. At 500 samples per second and many switches, that alone takes most of the time.
type Sampler struct {
	rings []*ring
	lost  int64
}

// StartSampler samples everything that runs on all CPUs, perSecond times on each.
func StartSampler(perSecond int, cpus int) (*Sampler, error) {
	s := &Sampler{}
	for cpu := range cpus {
		r, err := openRing(samplingEvent(perSecond), -1, cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // it is offline
		}
		if err != nil {
			return nil, errors.Join(unsupported(err), s.Close())
		}
		s.rings = append(s.rings, r)
	}
	return s, nil
}

// StartThreadSampler samples the threads of a process, and those that they start, in user space
// only, which needs fewer rights.
func StartThreadSampler(perSecond, cpus int, pid int) (*Sampler, error) {
	s := &Sampler{}
	byCPU := make([]*ring, cpus)
	if err := eachThread(pid, func(thread int) error { return s.addThread(perSecond, thread, byCPU) }); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// addThread samples a thread. An inherited event samples one CPU only. All events of a CPU
// write into one ring: memory for rings is scarce (kernel.perf_event_mlock_kb).
func (s *Sampler) addThread(perSecond, thread int, byCPU []*ring) error {
	for cpu := range byCPU {
		event := samplingEvent(perSecond)
		event.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitInherit
		var err error
		if r := byCPU[cpu]; r != nil {
			err = r.share(event, thread, cpu)
		} else if r, err = openRing(event, thread, cpu); err == nil {
			byCPU[cpu], s.rings = r, append(s.rings, r)
		}
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ESRCH) { // the CPU is offline, or the thread has ended
			return err
		}
	}
	return nil
}

func samplingEvent(perSecond int) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample:      uint64(perSecond),
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CALLCHAIN,
		Bits:        unix.PerfBitFreq | unix.PerfBitUseClockID,
		Clockid:     unix.CLOCK_MONOTONIC,
	}
}

// Drain passes on the samples since the last call.
func (s *Sampler) Drain(to func(Sample)) error {
	for _, r := range s.rings {
		if err := r.drain(to, &s.lost); err != nil {
			return err
		}
	}
	return nil
}

// Lost returns the number of samples that found no room.
func (s *Sampler) Lost() int64 { return s.lost }

// Close stops the sampler.
func (s *Sampler) Close() (err error) {
	for _, r := range s.rings {
		err = errors.Join(err, r.close())
	}
	return err
}

// A ring is memory that the kernel writes events into, perf_event_open(2).
type ring struct {
	fd     int
	shared []int // other events that write into it
	memory []byte
	spare  []byte // for an event that wraps around the end
}

// ringPages is the room for events: a power of two. It holds a CPU's samples of one second, at
// 500 per second and 1 KiB each.
const ringPages = 128

func openRing(event *unix.PerfEventAttr, thread, cpu int) (*ring, error) {
	fd, err := unix.PerfEventOpen(event, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	pages := ringPages
	if thread >= 0 {
		pages = 16 // memory is scarce, and the rate low
	}
	memory, err := unix.Mmap(fd, 0, (1+pages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &ring{fd: fd, memory: memory}, nil
}

// share makes another event of the CPU write into the ring.
func (r *ring) share(event *unix.PerfEventAttr, thread, cpu int) error {
	fd, err := unix.PerfEventOpen(event, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	r.shared = append(r.shared, fd)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
		return fmt.Errorf("share a ring: %w", err)
	}
	return nil
}

func (r *ring) drain(to func(Sample), lost *int64) error {
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	data := r.memory[os.Getpagesize():]
	head := atomic.LoadUint64(&control.Data_head)
	for tail := control.Data_tail; tail < head; {
		const header = 8 // type, misc, size
		at := int(tail % uint64(len(data)))
		kind := binary.NativeEndian.Uint32(data[at:])
		size := int(binary.NativeEndian.Uint16(data[at+6:]))
		if size < header {
			return fmt.Errorf("a perf event of %d bytes", size)
		}
		event := data[at:min(at+size, len(data))]
		if len(event) < size {
			r.spare = append(append(r.spare[:0], event...), data[:size-len(event)]...)
			event = r.spare
		}
		switch kind {
		case unix.PERF_RECORD_SAMPLE:
			sample, err := parseSample(event[header:])
			if err != nil {
				return err
			}
			to(sample)
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

// parseSample reads the fields that samplingEvent asks for, in the order of
// perf_event_open(2): pid, tid, time, and the number of program counters before them.
func parseSample(body []byte) (Sample, error) {
	const fixed = 4 + 4 + 8 + 8
	if len(body) < fixed {
		return Sample{}, fmt.Errorf("a sample of %d bytes", len(body))
	}
	word := binary.NativeEndian.Uint64
	s := Sample{PID: int(binary.NativeEndian.Uint32(body)), AtNS: int64(word(body[8:]))}
	counters := word(body[16:])
	if counters > uint64(len(body)-fixed)/8 {
		return Sample{}, fmt.Errorf("a sample of %d bytes with %d program counters", len(body), counters)
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
			const contexts = -4095 // PERF_CONTEXT_MAX; others belong to guests
			if int64(pc) < 0 && int64(pc) >= contexts {
				into = nil
			} else if into != nil {
				*into = append(*into, pc)
			}
		}
	}
	return s, nil
}

func (r *ring) close() error {
	err := unix.Munmap(r.memory)
	for _, fd := range append(r.shared, r.fd) {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
