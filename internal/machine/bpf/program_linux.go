// Package bpf runs small programs in the kernel that watch a server and its client. The programs
// are written in assembler, so they need no compiler and no kernel headers.
//
// A [Program] runs at a raw tracepoint, and a [FunctionProgram] at a function of a process. Most programs begin with [WatchedEnds.FilterProcesses],
// which ends the program unless one of the two watched processes is running. A program writes its
// results into memory that it shares with wirelab ([SharedMemory]), or into a ring of events
// ([EventRing]).
//
// The package needs root, or CAP_BPF and CAP_PERFMON, and a kernel with CONFIG_BPF_EVENTS. If the
// kernel refuses a program, the error wraps [host.ErrUnsupported] and names what is missing.
package bpf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
	"wirelab.dev/internal/machine/host"
)

// A Program is code that runs in the kernel. It ends with a jump to ExitLabel.
type Program struct {
	Name string
	On   string // name of a raw tracepoint, such as sys_enter
	Code asm.Instructions
}

// LoadedPrograms holds programs that the kernel has accepted.
type LoadedPrograms []loadedProgram

type loadedProgram struct {
	*ebpf.Program
	on string
}

// Load loads programs into the kernel, which checks them. The programs do not run yet.
func Load(programs ...Program) (_ LoadedPrograms, err error) {
	var all LoadedPrograms
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	for _, p := range programs {
		program, err := p.load(ebpf.RawTracepoint)
		if err != nil {
			return nil, err
		}
		all = append(all, loadedProgram{program, p.On})
	}
	return all, nil
}

func (p Program) load(as ebpf.ProgramType) (*ebpf.Program, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: p.Name, Type: as, License: "Dual MIT/GPL",
		Instructions: append(p.Code, asm.Mov.Imm(asm.R0, 0).WithSymbol(ExitLabel), asm.Return()),
	})
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		return nil, fmt.Errorf("the kernel's verifier refuses the BPF program %s: %w", p.Name, err)
	}
	return program, explainRefusal("load the BPF program "+p.Name, err)
}

// Attach starts the programs at their tracepoints. If one program cannot start, Attach starts none.
func (l LoadedPrograms) Attach() (RunningPrograms, error) {
	var running RunningPrograms
	for _, p := range l {
		attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: p.on, Program: p.Program})
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: this kernel has no tracepoint %s%s", host.ErrUnsupported, p.on, addedInLinux[p.on])
		} else if err != nil {
			err = explainRefusal("run a BPF program at tracepoint "+p.on, err)
		}
		if err != nil {
			return nil, errors.Join(err, running.Close())
		}
		running = append(running, attached)
	}
	return running, nil
}

// addedInLinux maps a tracepoint to the end of an error: the Linux version that added it.
var addedInLinux = map[string]string{"sk_data_ready": "; use Linux 6.3 or later"}

// Close releases the loaded programs. Attached programs continue to run.
func (l LoadedPrograms) Close() error { return closeAll(l) }

// RunningPrograms holds programs that are attached in the kernel.
type RunningPrograms []io.Closer

// Start loads programs and attaches them.
func Start(programs ...Program) (RunningPrograms, error) {
	loaded, err := Load(programs...)
	if err != nil {
		return nil, err
	}
	running, err := loaded.Attach()
	return running, errors.Join(err, loaded.Close())
}

// Close stops the programs.
func (r RunningPrograms) Close() error { return closeAll(r) }

func closeAll[T io.Closer](all []T) (err error) {
	for _, one := range slices.Backward(all) {
		err = errors.Join(err, one.Close())
	}
	return err
}

// A Session makes the objects that programs need, and closes them together. After an error, its
// methods return zero values, and Err returns the error.
type Session struct {
	made []io.Closer
	err  error
}

func buildAndKeep[T io.Closer](s *Session, build func() (T, error)) (made T) {
	if s.err != nil {
		return made
	}
	if made, s.err = build(); s.err == nil {
		s.made = append(s.made, made)
	}
	return made
}

// NewWatchedEnds makes a WatchedEnds without processes.
func (s *Session) NewWatchedEnds() *WatchedEnds { return buildAndKeep(s, newWatchedEnds) }

// NewSharedMemory makes shared memory that is filled with zeros.
func (s *Session) NewSharedMemory(name string, bytes int) *SharedMemory {
	return buildAndKeep(s, func() (*SharedMemory, error) { return newSharedMemory(name, bytes) })
}

// NewThreadTable makes a table with bytesEach bytes per thread.
func (s *Session) NewThreadTable(name string, bytesEach int) *ThreadTable {
	return &ThreadTable{s.NewSharedMemory(name, maxThreadPlaces*bytesEach), int32(bytesEach)}
}

// NewEventRing makes a ring of events. bytes must be a power of two.
func (s *Session) NewEventRing(bytes int) *EventRing {
	return buildAndKeep(s, func() (*EventRing, error) { return newEventRing(bytes) })
}

// NewStackMap makes a map for call stacks.
func (s *Session) NewStackMap() *StackMap { return buildAndKeep(s, newStackMap) }

// Load loads programs into the kernel, as the function Load does.
func (s *Session) Load(programs ...Program) LoadedPrograms {
	return buildAndKeep(s, func() (LoadedPrograms, error) { return Load(programs...) })
}

// Start loads programs and attaches them. They run until Close.
func (s *Session) Start(programs ...Program) {
	buildAndKeep(s, func() (RunningPrograms, error) { return Start(programs...) })
}

// Err returns the first error of the session's methods.
func (s *Session) Err() error { return s.err }

// Close stops the programs, and frees the session's objects.
func (s *Session) Close() error { return closeAll(s.made) }

// Numbers by which programs distinguish the server from the client.
const (
	Server = iota
	Client
	endCount
)

// WatchedEnds holds the process numbers of the server and the client that programs watch. An end may
// have several processes. A process that a watched process starts is watched from its start.
type WatchedEnds struct {
	watched *SharedMemory // by process number: 1 + the end of a watched process, or 0
	forks   RunningPrograms
	// Unfollowed says why processes that a watched process starts are not watched. It is nil if they are.
	Unfollowed error
	// device and inode identify the PID namespace of this process. They are 0 for the first
	// namespace, whose process numbers programs can read faster.
	device, inode uint64
}

func newWatchedEnds() (*WatchedEnds, error) {
	watched, err := newSharedMemory("ends", maxPIDs)
	if err != nil {
		return nil, err
	}
	e := &WatchedEnds{watched: watched}
	var namespace syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return nil, errors.Join(fmt.Errorf("find the PID namespace of this process: %w", err), watched.Close())
	}
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO of include/linux/proc_ns.h
	if namespace.Ino != first {
		const minorBits = 20 // MINORBITS of include/linux/kdev_t.h
		e.device = uint64(unix.Major(namespace.Dev))<<minorBits | uint64(unix.Minor(namespace.Dev))
		e.inode = namespace.Ino
	}
	e.Unfollowed = e.followForks()
	return e, nil
}

// maxPIDs is PID_MAX_LIMIT of include/linux/threads.h: all process numbers are smaller.
const maxPIDs = 4 << 20

// followForks starts a program that watches the processes that watched processes start.
func (e *WatchedEnds) followForks() error {
	if e.inode != 0 {
		return fmt.Errorf("%w: wirelab runs in a PID namespace, and the kernel announces new processes by other numbers; run wirelab on the host", host.ErrUnsupported)
	}
	tgid, err := FieldOffset("task_struct", "tgid")
	if err != nil {
		return err
	}
	const pid = 8 // distance from the stack's end
	e.forks, err = Start(Program{Name: "fork", On: "sched_process_fork", Code: slices.Concat(e.FilterProcesses(), asm.Instructions{
		asm.LoadMem(asm.R4, ContextRegister, 8, asm.DWord), // second argument of sched_process_fork
	}, CopyFromKernel(asm.R4, tgid, 4, pid), asm.Instructions{
		asm.LoadMem(asm.R0, asm.RFP, -pid, asm.Word),
	}, e.loadPlace(ExitLabel), asm.Instructions{
		asm.Add.Imm(EndRegister, 1),
		asm.StoreMem(asm.R1, 0, EndRegister, asm.Byte),
	})})
	return err
}

// AddProcess adds a process to the server or the client (end).
func (e *WatchedEnds) AddProcess(end, pid int) error {
	return e.watched.WriteUint8(pid, uint8(1+end))
}

// loadPlace returns instructions that load the address of the entry of a process into R1. R0 holds its number.
func (e *WatchedEnds) loadPlace(other string) asm.Instructions {
	return asm.Instructions{
		asm.JGE.Imm(asm.R0, maxPIDs, other), // never, but the kernel's verifier must know
		e.watched.LoadPointer(asm.R1, 0),
		asm.Add.Reg(asm.R1, asm.R0),
	}
}

// Close frees the process numbers.
func (e *WatchedEnds) Close() error { return errors.Join(e.forks.Close(), e.watched.Close()) }

// Registers that FilterProcesses sets, except SpareRegister. Calls of kernel functions keep their
// values.
const (
	ContextRegister = asm.R6
	EndRegister     = asm.R7 // Server or Client
	ThreadRegister  = asm.R8 // number of the thread in the first PID namespace
	SpareRegister   = asm.R9 // not set; programs may use it freely
)

// ExitLabel is the label of the instructions that end a program.
const ExitLabel = "out"

// BeginWithNextThread returns the first instructions of a program at sched_switch that handles the
// thread that gets the CPU. They end the program if that is the CPU's idle thread. pid is the
// offset of the field pid in task_struct.
func BeginWithNextThread(pid int32) asm.Instructions { return BeginWithThread(2, pid) }

// BeginWithThread is like BeginWithNextThread for the thread that an argument of the tracepoint names.
func BeginWithThread(argument int16, pid int32) asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.Mov.Reg(ContextRegister, asm.R1),
		asm.LoadMem(asm.R4, ContextRegister, 8*argument, asm.DWord),
	}, CopyFromKernel(asm.R4, pid, 4, 8), asm.Instructions{
		asm.LoadMem(ThreadRegister, asm.RFP, -8, asm.Word),
		asm.JEq.Imm(ThreadRegister, 0, ExitLabel),
	})
}

// FilterProcesses returns the first instructions of a program. They end the program unless a
// watched process is running. R0 then holds the number of the process, until the next call.
func (e *WatchedEnds) FilterProcesses() asm.Instructions { return e.FilterOrJump(ExitLabel) }

// FilterOrJump is like FilterProcesses, but jumps to the label other if another process is running.
// At that label EndRegister is not set.
func (e *WatchedEnds) FilterOrJump(other string) asm.Instructions {
	const onStack = -8
	program := asm.Instructions{
		asm.Mov.Reg(ContextRegister, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg32(ThreadRegister, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
	}
	if e.inode != 0 {
		program = append(program,
			asm.LoadImm(asm.R1, int64(e.device), asm.DWord),
			asm.LoadImm(asm.R2, int64(e.inode), asm.DWord),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, onStack),
			asm.Mov.Imm(asm.R4, 8), // size of struct bpf_pidns_info
			asm.FnGetNsCurrentPidTgid.Call(),
			asm.JNE.Imm(asm.R0, 0, other),
			asm.LoadMem(asm.R0, asm.RFP, onStack+4, asm.Word),
		)
	}
	return append(slices.Concat(program, e.loadPlace(other)),
		asm.LoadMem(EndRegister, asm.R1, 0, asm.Byte),
		asm.JEq.Imm(EndRegister, 0, other),
		asm.Sub.Imm(EndRegister, 1),
		asm.JGE.Imm(EndRegister, endCount, other), // as above
	)
}

var kernelTypes = sync.OnceValues(btf.LoadKernelSpec)

// FieldOffset returns the offset of a field in a structure of the running kernel.
func FieldOffset(structure, field string) (int32, error) {
	types, err := kernelTypes()
	if err != nil {
		return 0, fmt.Errorf("find the kernel's field %s.%s: %w: %w; use a kernel with CONFIG_DEBUG_INFO_BTF", structure, field, host.ErrUnsupported, err)
	}
	var found *btf.Struct
	if err := types.TypeByName(structure, &found); err != nil {
		return 0, fmt.Errorf("find the kernel's structure %s: %w: %w", structure, host.ErrUnsupported, err)
	}
	bits, err := findOffset(found, field)
	return int32(bits / 8), err
}

func findOffset(s btf.Type, field string) (bits btf.Bits, _ error) {
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
			if inside, err := findOffset(m.Type, field); err == nil {
				return m.Offset + inside, nil
			}
		}
	}
	return 0, fmt.Errorf("find the field %s in %s: %w: this kernel has no such field; use another kernel", field, s.TypeName(), host.ErrUnsupported)
}

// CopyFromKernel returns instructions that copy bytes of a kernel structure to the program's stack.
// address holds the structure's address. below is the target's distance from the stack's end.
func CopyFromKernel(address asm.Register, offset int32, bytes int32, below int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R3, address),
		asm.Add.Imm(asm.R3, offset),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -below),
		asm.Mov.Imm(asm.R2, bytes),
		asm.FnProbeReadKernel.Call(),
	}
}
