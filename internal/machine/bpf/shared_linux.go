package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"

	"wirelab.dev/internal/machine/host"
)

// Cure says how to let a process run programs in the kernel.
const Cure = "run as root, or grant CAP_BPF and CAP_PERFMON"

// unsupported returns an error for what the kernel refused.
func unsupported(what string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		// Its text guesses at limits of memory, mostly wrongly.
		return fmt.Errorf("%s: %w: %w; %s", what, host.ErrUnsupported, fs.ErrPermission, Cure)
	}
	var refused syscall.Errno
	if errors.As(err, &refused) || errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%s: %w: %w; it takes a kernel with CONFIG_BPF_EVENTS", what, host.ErrUnsupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Shared is memory that programs and this process both read and write. A program reaches
// it without a call. Words of 8 bytes are read and written whole.
type Shared struct {
	kernel *ebpf.Map
	memory *ebpf.Memory
}

// NewShared makes zeroed memory.
func NewShared(name string, bytes int) (*Shared, error) {
	// Kernels before 5.11 charge it to the locked memory of the process. If the limit may
	// not be raised, making the map fails.
	_ = rlimit.RemoveMemlock()
	kernel, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(bytes), MaxEntries: 1,
		Flags: mmapable,
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

// mmapable is BPF_F_MMAPABLE of include/uapi/linux/bpf.h.
const mmapable = 1 << 10

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
