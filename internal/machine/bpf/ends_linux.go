package bpf

import (
	"fmt"
	"syscall"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The ends of a wire, as programs number them.
const (
	Server = iota
	Client
	ends
)

// Ends holds the processes that programs watch. There may be none yet when the programs
// start.
type Ends struct {
	watched *Shared
	// device and inode identify this process's PID namespace, in which the kernel numbers
	// processes. They are 0 for the first namespace, whose numbers cost less to get.
	device, inode uint64
}

// NewEnds watches nothing yet.
func NewEnds() (*Ends, error) {
	watched, err := NewShared("ends", ends*4)
	if err != nil {
		return nil, err
	}
	e := &Ends{watched: watched}
	var namespace syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return nil, fmt.Errorf("find the namespace of processes: %w", err)
	}
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO of include/linux/proc_ns.h
	if namespace.Ino != first {
		const minorBits = 20 // MINORBITS of include/linux/kdev_t.h
		e.device = uint64(unix.Major(namespace.Dev))<<minorBits | uint64(unix.Minor(namespace.Dev))
		e.inode = namespace.Ino
	}
	return e, nil
}

// Watch puts a process at an end, in place of the one before.
func (e *Ends) Watch(end, pid int) error { return e.watched.Put32(4*end, uint32(pid)) }

// Close lets go of them.
func (e *Ends) Close() error { return e.watched.Close() }

// Registers that the filter sets; calls of the kernel keep them.
const (
	Context = asm.R6
	End     = asm.R7 // Server or Client
	Thread  = asm.R8 // in the first namespace of processes
	Spare   = asm.R9 // for the program
)

// Out is the label at which every program ends.
const Out = "out"

// Filter begins a program: it goes on with the registers set where a watched process is
// running, and ends the program where not.
func (e *Ends) Filter() asm.Instructions { return e.FilterOr(Out) }

// FilterOr goes to a label where another process is running. The end is not set there.
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
