package bpf

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"wirelab.dev/internal/machine/host"
)

// A FunctionProgram runs when a thread of a process enters a function of its program (uprobe). The
// processor traps into the kernel there, which takes 1 to 2 µs each time.
type FunctionProgram struct {
	name    string
	program *ebpf.Program
	running RunningPrograms
}

// NewFunctionProgram loads a program that runs at functions.
func (s *Session) NewFunctionProgram(name string, code asm.Instructions) *FunctionProgram {
	return buildAndKeep(s, func() (*FunctionProgram, error) {
		program, err := Program{Name: name, Code: code}.load(ebpf.Kprobe)
		return &FunctionProgram{name: name, program: program}, err
	})
}

// Attach runs the program at a function of a process. offset is the function's offset in the file of the
// process's program.
func (f *FunctionProgram) Attach(pid int, offset uint64) error {
	file, err := link.OpenExecutable(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return err
	}
	attached, err := file.Uprobe("", f.program, &link.UprobeOptions{Address: offset, PID: pid})
	if err != nil {
		return explainRefusal(fmt.Sprintf("run a BPF program at functions of process %d (uprobe)", pid), err)
	}
	f.running = append(f.running, attached)
	return nil
}

// Close stops the program.
func (f *FunctionProgram) Close() error {
	if f.program == nil {
		return nil
	}
	return errors.Join(f.running.Close(), f.program.Close())
}

// goRegisters holds the offsets of registers in a program's context, struct pt_regs of
// arch/*/include/*asm/ptrace.h, by what Go's calling convention has in them (abi-internal.md).
type goRegisters struct {
	argument  int16 // the first one
	goroutine int16
	stack     int16 // where the return address is in memory
	link      int16 // the return address; used if stack is 0
}

var goRegistersOf = map[string]goRegisters{
	"amd64": {argument: 80, goroutine: 8, stack: 152}, // AX, R14, SP
	"arm64": {argument: 0, goroutine: 224, link: 240}, // R0, R28, R30
}

// SupportsGoFunctions returns an error that wraps host.ErrUnsupported if programs cannot read the
// arguments of Go's functions on this architecture.
func SupportsGoFunctions() error {
	if _, known := goRegistersOf[runtime.GOARCH]; !known {
		return fmt.Errorf("%w: arguments of Go functions on %s; use amd64 or arm64", host.ErrUnsupported, runtime.GOARCH)
	}
	return nil
}

// LoadGoArgument returns an instruction that loads the first argument of a Go function at its entry.
func LoadGoArgument(into asm.Register) asm.Instruction {
	return asm.LoadMem(into, ContextRegister, goRegistersOf[runtime.GOARCH].argument, asm.DWord)
}

// LoadGoroutine returns an instruction that loads the address of the goroutine that enters a Go function.
func LoadGoroutine(into asm.Register) asm.Instruction {
	return asm.LoadMem(into, ContextRegister, goRegistersOf[runtime.GOARCH].goroutine, asm.DWord)
}

// CopyReturnAddress returns instructions that copy a function's return address to the program's stack,
// below bytes from its end. At the entry of a function, call stacks do not have it.
func CopyReturnAddress(below int32) asm.Instructions {
	registers := goRegistersOf[runtime.GOARCH]
	if registers.stack == 0 {
		return asm.Instructions{
			asm.LoadMem(asm.R1, ContextRegister, registers.link, asm.DWord),
			asm.StoreMem(asm.RFP, int16(-below), asm.R1, asm.DWord),
		}
	}
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, int16(-below), asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -below),
		asm.Mov.Imm(asm.R2, 8),
		asm.LoadMem(asm.R3, ContextRegister, registers.stack, asm.DWord),
		asm.FnProbeReadUser.Call(),
	}
}

// A HashTable maps keys to values that programs keep.
type HashTable struct{ kernel *ebpf.Map }

// NewHashTable makes a hash table. Where it is full, the entries that were not used for longest leave.
func (s *Session) NewHashTable(name string, keyBytes, valueBytes, entries uint32) *HashTable {
	return buildAndKeep(s, func() (*HashTable, error) {
		kernel, err := ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.LRUHash, KeySize: keyBytes, ValueSize: valueBytes, MaxEntries: entries})
		return &HashTable{kernel}, explainRefusal("make a BPF hash table", err)
	})
}

// call returns instructions that call a function with the table and a key on the program's stack.
func (t *HashTable) call(function asm.BuiltinFunc, key int32, more ...asm.Instruction) asm.Instructions {
	return append(append(asm.Instructions{
		asm.LoadMapPtr(asm.R1, t.kernel.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -key),
	}, more...), function.Call())
}

// Put returns instructions that store a value. Key and value are on the program's stack, as many bytes
// before its end.
func (t *HashTable) Put(key, value int32) asm.Instructions {
	return t.call(asm.FnMapUpdateElem, key, asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -value), asm.Mov.Imm(asm.R4, 0))
}

// Find returns instructions that load the address of a key's value into R0. They end the program if there
// is none.
func (t *HashTable) Find(key int32) asm.Instructions {
	return append(t.call(asm.FnMapLookupElem, key), asm.JEq.Imm(asm.R0, 0, ExitLabel))
}

// Delete returns instructions that delete a key.
func (t *HashTable) Delete(key int32) asm.Instructions { return t.call(asm.FnMapDeleteElem, key) }

// Close frees the table.
func (t *HashTable) Close() error { return t.kernel.Close() }
