package syscalls

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cilium/ebpf/asm"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/bpf"
	"wirelab.dev/internal/machine/probe"
)

// The memory that the programs share with this process, in words of 8 bytes: for each end
// a table of numbers and nanoseconds by system call. Behind it is a table of the calls that
// are under way, by thread.
const (
	kinds        = 512 // system calls have smaller numbers on all architectures
	kindBytes    = 16  // number, nanoseconds
	endBytes     = kinds * kindBytes
	tableBytes   = 2 * endBytes
	columns      = tableBytes / 8
	threads      = 4096 // two threads whose numbers differ by a multiple of it share a place
	threadBytes  = 16   // thread, kind, instant
	readingsEach = 20 * time.Millisecond
)

// Census counts with programs in the kernel.
type Census struct {
	ends     *bpf.Ends
	counted  *bpf.Shared // tableBytes
	underWay *bpf.Shared // threads * threadBytes
	running  bpf.Running
	readings *probe.Readings
}

// startCensus starts the programs. Its error wraps host.ErrUnsupported where the kernel
// refuses.
func startCensus() (_ *Census, err error) {
	c := &Census{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.ends, err = bpf.NewEnds(); err != nil {
		return nil, err
	}
	if c.counted, err = bpf.NewShared("counted", tableBytes); err != nil {
		return nil, err
	}
	if c.underWay, err = bpf.NewShared("under_way", threads*threadBytes); err != nil {
		return nil, err
	}
	if c.running, err = bpf.Start(
		bpf.Program{Name: "enter", On: "sys_enter", Code: c.enter()},
		bpf.Program{Name: "exit", On: "sys_exit", Code: c.exit()},
	); err != nil {
		return nil, err
	}
	bytes := make([]byte, tableBytes)
	c.readings = probe.TakeReadings(columns, readingsEach, func(into []uint64) error {
		if err := c.counted.Read(bytes); err != nil {
			return err
		}
		for i := range into {
			into[i] = binary.NativeEndian.Uint64(bytes[8*i:])
		}
		return nil
	})
	return c, nil
}

// Coverage returns how it counts.
func (*Census) Coverage() probe.Coverage { return probe.Coverage{Method: "BPF on every system call"} }

// Process sets the process at an end.
func (c *Census) Process(end probe.End, pid int) error { return c.ends.Watch(int(end), pid) }

// enter counts a call and remembers when it began.
func (c *Census) enter() asm.Instructions {
	const kind = bpf.Spare
	return slices.Concat(c.ends.Filter(), asm.Instructions{
		asm.LoadMem(kind, bpf.Context, 8, asm.DWord), // the second argument of sys_enter
		asm.JGE.Imm(kind, kinds, bpf.Out),
		c.counted.Pointer(asm.R3, 0),
		asm.Mov.Reg(asm.R2, bpf.End),
		asm.Mul.Imm(asm.R2, endBytes),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.Mov.Reg(asm.R2, kind),
		asm.Mul.Imm(asm.R2, kindBytes),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R3, asm.R1, asm.DWord, 0),

		asm.FnKtimeGetNs.Call(),
	}, c.place(asm.R3), asm.Instructions{
		asm.StoreMem(asm.R3, 0, bpf.Thread, asm.Word),
		asm.StoreMem(asm.R3, 4, kind, asm.Word),
		asm.StoreMem(asm.R3, 8, asm.R0, asm.DWord),
	})
}

// place loads the address of the thread's place in the table of calls under way.
func (c *Census) place(into asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, bpf.Thread),
		asm.And.Imm(asm.R2, threads-1),
		asm.Mul.Imm(asm.R2, threadBytes),
		c.underWay.Pointer(into, 0),
		asm.Add.Reg(into, asm.R2),
	}
}

// exit adds the time of a call that has returned.
func (c *Census) exit() asm.Instructions {
	const place = bpf.Spare
	return slices.Concat(c.ends.Filter(), c.place(place), asm.Instructions{
		asm.LoadMem(asm.R1, place, 0, asm.Word),
		asm.JNE.Reg(asm.R1, bpf.Thread, bpf.Out), // it began before the census did, or lost its place
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, place, 8, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R1),
		asm.StoreImm(place, 0, 0, asm.Word),
		asm.LoadMem(asm.R1, place, 4, asm.Word),
		asm.JGE.Imm(asm.R1, kinds, bpf.Out),
		c.counted.Pointer(asm.R3, 0),
		asm.Mul.Imm(asm.R1, kindBytes),
		asm.Add.Reg(asm.R3, asm.R1),
		asm.Mul.Imm(bpf.End, endBytes),
		asm.Add.Reg(asm.R3, bpf.End),
		asm.AddAtomic.Mem(asm.R3, asm.R0, asm.DWord, 8),
	})
}

// Stop stops the programs.
func (c *Census) Stop(window probe.Measured) (probe.Findings, error) {
	c.readings.Stop()
	var findings probe.Findings
	grown, err := c.readings.Between(window.Span)
	if err := errors.Join(err, c.close()); err != nil {
		return findings, err
	}
	for _, end := range []probe.End{probe.Server, probe.Client} {
		seen := findings.Of(end)
		seen.Method = c.Coverage().Method
		for kind := range kinds {
			at := (int(end)*kinds + kind) * kindBytes / 8
			if count := int64(math.Round(grown[at])); count > 0 {
				seen.Syscalls = append(seen.Syscalls, record.Syscall{Name: nameOf(kind), Count: count, NS: new(int64(grown[at+1]))})
			}
		}
		sortCalls(seen.Syscalls)
	}
	return findings, nil
}

func (c *Census) close() error {
	err := c.running.Close()
	for _, shared := range []*bpf.Shared{c.counted, c.underWay} {
		if shared != nil {
			err = errors.Join(err, shared.Close())
		}
	}
	if c.ends != nil {
		err = errors.Join(err, c.ends.Close())
	}
	return err
}

func nameOf(kind int) string {
	if name, known := names[kind]; known {
		return name
	}
	return fmt.Sprintf("number %d", kind)
}
