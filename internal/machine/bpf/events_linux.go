package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"
)

// Events is a ring that programs write to and this process reads from. An event wakes nobody:
// that would take CPU time from the watched processes.
type Events struct {
	ring   *ebpf.Map
	reader *ringbuf.Reader
	lost   *Shared
	record ringbuf.Record
}

// NewEvents makes a ring of a size that is a power of two.
func NewEvents(bytes int) (_ *Events, err error) {
	e := &Events{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.lost, err = NewShared("lost", 8); err != nil {
		return nil, err
	}
	if e.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: uint32(bytes)}); err != nil {
		return nil, unsupported("make a ring of events", err)
	}
	if e.reader, err = ringbuf.NewReader(e.ring); err != nil {
		return nil, fmt.Errorf("read a ring of events: %w", err)
	}
	return e, nil
}

// Emit writes an event that lies on the program's stack, below bytes from its end.
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

// Drain hands over the events that have come since the last time. Each is valid until to
// returns.
func (e *Events) Drain(to func(event []byte)) error {
	e.reader.SetDeadline(time.Unix(1, 0)) // long past: it does not wait
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

// Lost returns the number of events that found the ring full.
func (e *Events) Lost() (int64, error) {
	var word [8]byte
	err := e.lost.Read(word[:])
	return int64(binary.NativeEndian.Uint64(word[:])), err
}

// Close frees the ring.
func (e *Events) Close() (err error) {
	if e.reader != nil {
		err = e.reader.Close()
	}
	if e.ring != nil {
		err = errors.Join(err, e.ring.Close())
	}
	if e.lost != nil {
		err = errors.Join(err, e.lost.Close())
	}
	return err
}
