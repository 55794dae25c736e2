package bpf

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"wirelab.dev/internal/machine/host"
)

// TestAKernelWithoutATracepoint checks that an older kernel counts as unsupported, not as a
// failure.
func TestAKernelWithoutATracepoint(t *testing.T) {
	start := func(on string) error {
		running, err := Start(Program{Name: "test", On: on, Code: asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}})
		return errors.Join(err, running.Close())
	}
	if err := start("sys_enter"); errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := start("there_is_none"); !errors.Is(err, host.ErrUnsupported) || !strings.Contains(err.Error(), "no tracepoint there_is_none") {
		t.Errorf("a tracepoint that there is not: %v", err)
	}
	if _, err := FieldOffset("task_struct", "there_is_none"); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("a field that there is not: %v", err)
	}
}

// TestStacksOfOneNumber captures a stack for whose number the first map has another stack.
func TestStacksOfOneNumber(t *testing.T) {
	stacks, err := newStackMap()
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stacks.Close() }()
	tooSmall, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.StackTrace, KeySize: 4, ValueSize: maxStackDepth * 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	_ = stacks.maps[0].Close() // the test replaces it
	stacks.maps[0] = tooSmall
	var session Session
	defer func() { _ = session.Close() }()
	events := session.NewEventRing(1 << 16)
	const bytes = 8
	session.Start(Program{Name: "capture", On: "sys_enter", Code: slices.Concat(
		asm.Instructions{asm.Mov.Reg(ContextRegister, asm.R1)}, stacks.CaptureStack(false),
		asm.Instructions{asm.StoreMem(asm.RFP, -bytes, asm.R0, asm.DWord)}, stacks.CaptureStack(true),
		asm.Instructions{asm.StoreMem(asm.RFP, -bytes+4, asm.R0, asm.Word)}, events.Emit(bytes, bytes))})
	if err := session.Err(); errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	numbers := map[int32]bool{}
	for second := false; !second; { // until system calls were made from two places
		if err := events.Drain(func(event []byte) {
			for _, number := range []uint32{binary.NativeEndian.Uint32(event), binary.NativeEndian.Uint32(event[4:])} {
				numbers[int32(number)] = true
				second = second || int32(number) >= maxStacks
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for number := range numbers { // look-ups are system calls, too
		if stack, err := stacks.ProgramCounters(number); err != nil || number >= 0 && len(stack) == 0 {
			t.Errorf("stack %d: %v, %v", number, stack, err)
		}
	}
}

// TestEventsAreCounted: what finds no room is counted as lost.
func TestEventsAreCounted(t *testing.T) {
	events, err := newEventRing(4096)
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 16
	running, err := Start(Program{Name: "emit", On: "sys_enter", Code: append(asm.Instructions{
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, -bytes, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 2),
		asm.StoreMem(asm.RFP, -bytes+8, asm.R1, asm.DWord),
	}, events.Emit(bytes, bytes)...)})
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for lost := int64(0); lost == 0; { // until this machine has made enough system calls
		if lost, err = events.LostEvents(); err != nil {
			t.Fatal(err)
		}
	}
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	found := 0
	if err := events.Drain(func(event []byte) {
		found++
		if len(event) != bytes || event[0] != 1 || event[8] != 2 {
			t.Errorf("an event is %x", event)
		}
	}); err != nil {
		t.Fatal(err)
	}
	const header = 8 // of the ring, for each
	if most := 4096 / (header + bytes); found == 0 || found > most {
		t.Errorf("%d events were found, of %d that have room", found, most)
	}
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
}
