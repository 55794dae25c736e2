package bpf

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Stacks are call stacks that programs met, by numbers.
type Stacks struct{ stacks *ebpf.Map }

const (
	deepest    = 127 // PERF_MAX_STACK_DEPTH of include/uapi/linux/perf_event.h
	mostStacks = 1 << 14
)

// NewStacks has room for some thousands of different ones.
func NewStacks() (*Stacks, error) {
	stacks, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: deepest * 8, MaxEntries: mostStacks,
	})
	if err != nil {
		return nil, unsupported("keep call stacks", err)
	}
	return &Stacks{stacks}, nil
}

// Take puts the number of the current stack, of user space or of the kernel, into R0: negative
// if it could not be had.
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

// Close frees them.
func (s *Stacks) Close() error { return s.stacks.Close() }
