package bpf

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"wirelab.dev/internal/machine/host"
)

var kernelTypes = sync.OnceValues(btf.LoadKernelSpec)

// Offset returns the offset of a field in a structure of the running kernel.
func Offset(structure, field string) (int32, error) {
	types, err := kernelTypes()
	if err != nil {
		return 0, fmt.Errorf("find %s.%s: %w: %w; it takes a kernel with CONFIG_DEBUG_INFO_BTF", structure, field, host.ErrUnsupported, err)
	}
	var found *btf.Struct
	if err := types.TypeByName(structure, &found); err != nil {
		return 0, fmt.Errorf("find the kernel's %s: %w: %w", structure, host.ErrUnsupported, err)
	}
	bits, err := offsetIn(found, field)
	return int32(bits / 8), err
}

// offsetIn looks into anonymous members, too.
func offsetIn(s btf.Type, field string) (bits btf.Bits, _ error) {
	var members []btf.Member
	switch s := btf.UnderlyingType(s).(type) {
	case *btf.Struct:
		members = s.Members
	case *btf.Union:
		members = s.Members
	}
	for _, m := range members {
		if m.Name == field {
			return m.Offset, nil
		}
		if m.Name == "" {
			if inside, err := offsetIn(m.Type, field); err == nil {
				return m.Offset + inside, nil
			}
		}
	}
	return 0, fmt.Errorf("find the field %s in %s: %w: this kernel's has none", field, s.TypeName(), host.ErrUnsupported)
}

// ReadKernel copies bytes of a structure of the kernel, whose address is in a register, to the
// program's stack, below bytes from its end.
func ReadKernel(address asm.Register, offset int32, bytes int32, below int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R3, address),
		asm.Add.Imm(asm.R3, offset),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -below),
		asm.Mov.Imm(asm.R2, bytes),
		asm.FnProbeReadKernel.Call(),
	}
}
