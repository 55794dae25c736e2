package bpf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"wirelab.dev/internal/machine/host"
)

// A Program is code for the kernel. It ends at the label Out.
type Program struct {
	Name string
	On   string // the raw tracepoint, as in sys_enter
	Code asm.Instructions
}

// Loaded are programs that the kernel has checked.
type Loaded []loaded

type loaded struct {
	program *ebpf.Program
	on      string
}

// Load has the kernel check programs. They do not run yet.
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
		attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: p.on, Program: p.program})
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

// since are the versions of Linux that younger tracepoints came with.
var since = map[string]string{"sk_data_ready": "; Linux 6.3 has it"}

// Close lets go of them; those that run go on.
func (l Loaded) Close() (err error) {
	for _, p := range l {
		err = errors.Join(err, p.program.Close())
	}
	return err
}

// Running are programs that the kernel runs.
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
func (r Running) Close() (err error) {
	for _, program := range r {
		err = errors.Join(err, program.Close())
	}
	return err
}
