package bpf

import (
	"errors"
	"strings"
	"testing"

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
