// Package bpf runs small programs in the kernel that watch a server and its client:
// written here in assembler, so that neither a compiler nor kernel headers are needed.
//
// A [Program] begins with [Ends.Filter], which ends it unless one of the two watched processes
// runs, and it runs on a raw tracepoint. It writes its results into memory that it shares with
// wirelab ([Shared]) or into a ring of events ([Events]).
//
// It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with CONFIG_BPF_EVENTS. An error for
// a refused program wraps [host.ErrUnsupported] and says what is needed.
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

// A Program is code for the kernel. It ends at the label Out.
type Program struct {
	Name string
	On   string // the raw tracepoint, as in sys_enter
	Code asm.Instructions
}

// Loaded holds programs that the kernel has checked.
type Loaded []loaded

type loaded struct {
	*ebpf.Program
	on string
}

// Load makes the kernel check programs. They do not run yet.
func Load(programs ...Program) (_ Loaded, err error) {
	var all Loaded
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	for _, p := range programs {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: p.Name, Type: ebpf.RawTracepoint, License: "Dual MIT/GPL",
			Instructions: append(p.Code, asm.Mov.Imm(asm.R0, 0).WithSymbol(Out), asm.Return()),
		})
		var refused *ebpf.VerifierError
		switch {
		case errors.As(err, &refused):
			return nil, fmt.Errorf("the kernel's verifier refuses the program %s: %w", p.Name, err)
		case err != nil:
			return nil, unsupported("load the program "+p.Name, err)
		}
		all = append(all, loaded{program, p.On})
	}
	return all, nil
}

// Run runs the programs at their tracepoints. Either all run, or none.
func (l Loaded) Run() (Running, error) {
	var running Running
	for _, p := range l {
		attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: p.on, Program: p.Program})
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: this kernel has no tracepoint %s%s", host.ErrUnsupported, p.on, since[p.on])
		} else if err != nil {
			err = unsupported("run at tracepoint "+p.on, err)
		}
		if err != nil {
			return nil, errors.Join(err, running.Close())
		}
		running = append(running, attached)
	}
	return running, nil
}

// since names the version of Linux that added a tracepoint.
var since = map[string]string{"sk_data_ready": "; Linux 6.3 has it"}

// Close releases the programs. Running programs go on.
func (l Loaded) Close() error { return closeAll(l) }

// Running holds programs that the kernel runs.
type Running []io.Closer

// Start loads programs and runs them.
func Start(programs ...Program) (Running, error) {
	loaded, err := Load(programs...)
	if err != nil {
		return nil, err
	}
	running, err := loaded.Run()
	return running, errors.Join(err, loaded.Close())
}

// Close stops the programs.
func (r Running) Close() error { return closeAll(r) }

func closeAll[T io.Closer](all []T) (err error) {
	for _, one := range slices.Backward(all) {
		err = errors.Join(err, one.Close())
	}
	return err
}

// A Session makes the objects that programs need, and closes all of them together. After the first
// error it makes nothing more, and returns zero values.
type Session struct {
	made []io.Closer
	err  error
}

func keep[T io.Closer](s *Session, build func() (T, error)) (made T) {
	if s.err != nil {
		return made
	}
	if made, s.err = build(); s.err == nil {
		s.made = append(s.made, made)
	}
	return made
}

// Ends makes an Ends that watches no process yet.
func (s *Session) Ends() *Ends { return keep(s, newEnds) }

// Shared makes zeroed memory.
func (s *Session) Shared(name string, bytes int) *Shared {
	return keep(s, func() (*Shared, error) { return newShared(name, bytes) })
}

// Table makes a table of threads.
func (s *Session) Table(name string, bytesEach int) *Table {
	return &Table{s.Shared(name, mostThreads*bytesEach), int32(bytesEach)}
}

// Events makes a ring. bytes must be a power of two.
func (s *Session) Events(bytes int) *Events {
	return keep(s, func() (*Events, error) { return newEvents(bytes) })
}

// Stacks makes a Stacks with room for some thousands of different stacks.
func (s *Session) Stacks() *Stacks { return keep(s, newStacks) }

// Load makes the kernel check programs, as the function Load does.
func (s *Session) Load(programs ...Program) Loaded {
	return keep(s, func() (Loaded, error) { return Load(programs...) })
}

// Start loads programs and runs them until Close.
func (s *Session) Start(programs ...Program) {
	keep(s, func() (Running, error) { return Start(programs...) })
}

// Err returns the first error.
func (s *Session) Err() error { return s.err }

// Close stops the programs, and frees the session's objects.
func (s *Session) Close() error { return closeAll(s.made) }

// The ends of a wire, as programs number them.
const (
	Server = iota
	Client
	ends
)

// Ends holds the processes that programs watch, or none yet.
type Ends struct {
	watched *Shared
	// device and inode identify this process's PID namespace, in which the kernel numbers
	// processes. They are 0 for the first namespace, whose numbers cost less to get.
	device, inode uint64
}

func newEnds() (*Ends, error) {
	watched, err := newShared("ends", ends*4)
	if err != nil {
		return nil, err
	}
	e := &Ends{watched: watched}
	var namespace syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return nil, errors.Join(fmt.Errorf("find the namespace of processes: %w", err), watched.Close())
	}
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO of include/linux/proc_ns.h
	if namespace.Ino != first {
		const minorBits = 20 // MINORBITS of include/linux/kdev_t.h
		e.device = uint64(unix.Major(namespace.Dev))<<minorBits | uint64(unix.Minor(namespace.Dev))
		e.inode = namespace.Ino
	}
	return e, nil
}

// Watch sets the process at an end, in place of the earlier one.
func (e *Ends) Watch(end, pid int) error { return e.watched.Put32(4*end, uint32(pid)) }

// Close frees the memory of the processes.
func (e *Ends) Close() error { return e.watched.Close() }

// Registers that the filter sets. Calls of kernel functions preserve them.
const (
	Context = asm.R6
	End     = asm.R7 // Server or Client
	Thread  = asm.R8 // in the first namespace of processes
	Spare   = asm.R9 // for the program
)

// Out is the label at which every program ends.
const Out = "out"

// NextThread begins a program on sched_switch: it continues for the thread that gets the CPU, and ends the
// program if that is a CPU's idle thread. pid is the offset of that field in task_struct.
func NextThread(pid int32) asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.Mov.Reg(Context, asm.R1),
		asm.LoadMem(asm.R4, Context, 16, asm.DWord), // the third argument of sched_switch
	}, ReadKernel(asm.R4, pid, 4, 8), asm.Instructions{
		asm.LoadMem(Thread, asm.RFP, -8, asm.Word),
		asm.JEq.Imm(Thread, 0, Out),
	})
}

// Filter begins a program, and ends it unless a watched process is running.
func (e *Ends) Filter() asm.Instructions { return e.FilterOr(Out) }

// FilterOr jumps to a label if another process is running. End is not set there.
func (e *Ends) FilterOr(other string) asm.Instructions {
	const onStack = -8
	program := asm.Instructions{
		asm.Mov.Reg(Context, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg32(Thread, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
	}
	if e.inode != 0 {
		program = append(program,
			asm.LoadImm(asm.R1, int64(e.device), asm.DWord),
			asm.LoadImm(asm.R2, int64(e.inode), asm.DWord),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, onStack),
			asm.Mov.Imm(asm.R4, 8), // struct bpf_pidns_info
			asm.FnGetNsCurrentPidTgid.Call(),
			asm.JNE.Imm(asm.R0, 0, other),
			asm.LoadMem(asm.R0, asm.RFP, onStack+4, asm.Word),
		)
	}
	return append(program,
		e.watched.Pointer(asm.R1, 0),
		asm.Mov.Imm(End, Server),
		asm.LoadMem(asm.R2, asm.R1, 4*Server, asm.Word),
		asm.JEq.Reg(asm.R0, asm.R2, "watched"),
		asm.Mov.Imm(End, Client),
		asm.LoadMem(asm.R2, asm.R1, 4*Client, asm.Word),
		asm.JNE.Reg(asm.R0, asm.R2, other),
		asm.Mov.Reg(asm.R0, asm.R0).WithSymbol("watched"),
	)
}

var kernelTypes = sync.OnceValues(btf.LoadKernelSpec)

// Offset returns the offset of a field in a structure of the running kernel.
func Offset(structure, field string) (int32, error) {
	types, err := kernelTypes()
	if err != nil {
		return 0, fmt.Errorf("find %s.%s: %w: %w; it needs a kernel with CONFIG_DEBUG_INFO_BTF", structure, field, host.ErrUnsupported, err)
	}
	var found *btf.Struct
	if err := types.TypeByName(structure, &found); err != nil {
		return 0, fmt.Errorf("find the kernel's %s: %w: %w", structure, host.ErrUnsupported, err)
	}
	bits, err := offsetIn(found, field)
	return int32(bits / 8), err
}

// offsetIn also searches anonymous members.
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

// ReadKernel copies bytes of a kernel structure, whose address is in a register, to the program's
// stack, the given bytes below its end.
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
