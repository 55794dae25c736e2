// Package syscalls counts the system calls of a server and its client by name, and how
// long each kind takes, waiting included. It has three ways, the best first:
//
//  1. [Census]: programs in the kernel count every call. Exact; a call costs 0.1 to 0.3 µs
//     more.
//  2. [Tracepoints]: perf events count the calls that matter most to a wire. Exact; no
//     times.
//  3. [Procfs]: reads and writes of files only, as /proc/PID/io has them.
package syscalls

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cilium/ebpf/asm"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/bpf"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// Shared memory: one table per end, of numbers and nanoseconds by system call. Another table has
// the calls in progress, by thread.
const (
	kinds        = 512 // system calls have smaller numbers on all architectures
	kindBytes    = 16  // number, nanoseconds
	endBytes     = kinds * kindBytes
	tableBytes   = 2 * endBytes
	columns      = tableBytes / 8
	threadBytes  = 16 // thread, kind, instant
	readingsEach = 20 * time.Millisecond
)

// Census counts with programs in the kernel.
type Census struct {
	session  bpf.Session
	ends     *bpf.Ends
	counted  *bpf.Shared // tableBytes
	underWay *bpf.Table
	readings *probe.Readings
}

// startCensus starts the programs. Its error wraps host.ErrUnsupported if the kernel refuses them.
func startCensus() (*Census, error) {
	c := &Census{}
	c.ends, c.counted, c.underWay = c.session.Ends(), c.session.Shared("counted", tableBytes), c.session.Table("under_way", threadBytes)
	if c.session.Err() == nil {
		c.session.Start(
			bpf.Program{Name: "enter", On: "sys_enter", Code: c.enter()},
			bpf.Program{Name: "exit", On: "sys_exit", Code: c.exit()},
		)
	}
	if err := c.session.Err(); err != nil {
		return nil, errors.Join(err, c.session.Close())
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
	}, c.underWay.Place(asm.R3), asm.Instructions{
		asm.StoreMem(asm.R3, 0, bpf.Thread, asm.Word),
		asm.StoreMem(asm.R3, 4, kind, asm.Word),
		asm.StoreMem(asm.R3, 8, asm.R0, asm.DWord),
	})
}

// exit adds the time of a call that has returned.
func (c *Census) exit() asm.Instructions {
	const place = bpf.Spare
	// A call has no place if it began before the census did.
	return slices.Concat(c.ends.Filter(), c.underWay.Find(place), asm.Instructions{
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
	if err := errors.Join(err, c.session.Close()); err != nil {
		return findings, err
	}
	for _, end := range []probe.End{probe.Server, probe.Client} {
		seen := findings.Of(end)
		seen.Method = c.Coverage().Method
		for kind := range kinds {
			at := (int(end)*kinds + kind) * kindBytes / 8
			addCalls(seen, record.Syscall{Name: nameOf(kind), NS: new(int64(grown[at+1]))}, grown[at])
		}
	}
	return findings, nil
}

// addCalls adds the calls of a name if there were any. It keeps the most frequent first.
func addCalls(seen *record.Seen, calls record.Syscall, count float64) {
	if calls.Count = int64(math.Round(count)); calls.Count <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(seen.Syscalls, calls, func(a, b record.Syscall) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	seen.Syscalls = slices.Insert(seen.Syscalls, at, calls)
}

func nameOf(kind int) string { return cmp.Or(names[kind], fmt.Sprintf("number %d", kind)) }

// Start counts in the best way that the machine allows.
func Start() (probe.Watch, error) {
	census, err := startCensus()
	if err == nil {
		return census, nil
	}
	if !errors.Is(err, host.ErrUnsupported) {
		return nil, err
	}
	tracepoints, err2 := startTracepoints()
	if err2 == nil {
		tracepoints.lacks("the times of calls, and calls of other names", err)
		return tracepoints, nil
	}
	if !errors.Is(err2, host.ErrUnsupported) {
		return nil, err2
	}
	procfs, err3 := startProcfs()
	if err3 == nil {
		procfs.lacks("calls by name, and their times", err)
		return procfs, nil
	}
	return nil, fmt.Errorf("%w; tracepoints: %w; /proc: %w", err, err2, err3)
}
