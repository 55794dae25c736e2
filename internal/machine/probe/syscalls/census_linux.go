// Package syscalls counts the system calls of a server and its client by name, and measures how
// long they take, including waiting. The first method that the machine allows is used:
//
//  1. [BPFCounter]: programs in the kernel count and time every call. Each call takes 0.1 to
//     0.3 µs longer.
//  2. [TracepointCounter]: perf events count only the calls that matter most to RPC. It measures
//     no times.
//  3. [ProcfsCounter]: the sums of reads and writes in /proc/PID/io.
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

// Memory shared with the kernel. For server and client, a table holds the count and the total time
// of each system call. Another table holds the current system call of each thread.
const (
	maxSyscalls     = 512 // on all architectures system calls have smaller numbers
	bytesPerSyscall = 16  // a count and a time in nanoseconds
	bytesPerEnd     = maxSyscalls * bytesPerSyscall
	tableBytes      = 2 * bytesPerEnd
	countersInTable = tableBytes / 8
	bytesPerThread  = 16                   // thread, system call, and the instant at which the call began
	readingPeriod   = 5 * time.Millisecond // until there are many readings (probe.Readings)
)

// A BPFCounter counts and times every system call with programs in the kernel.
type BPFCounter struct {
	session  bpf.Session
	ends     *bpf.WatchedEnds
	counted  *bpf.SharedMemory // counts and times, tableBytes long
	underWay *bpf.ThreadTable
	readings *probe.Readings
}

// startBPFCounter starts the programs. If the kernel refuses them, the error wraps
// host.ErrUnsupported.
func startBPFCounter() (*BPFCounter, error) {
	c := &BPFCounter{}
	c.ends, c.counted, c.underWay = c.session.NewWatchedEnds(), c.session.NewSharedMemory("counted", tableBytes), c.session.NewThreadTable("under_way", bytesPerThread)
	if c.session.Err() == nil {
		c.session.Start(
			bpf.Program{Name: "enter", On: "sys_enter", Code: c.enterProgram()},
			bpf.Program{Name: "exit", On: "sys_exit", Code: c.exitProgram()},
		)
	}
	if err := c.session.Err(); err != nil {
		return nil, errors.Join(err, c.session.Close())
	}
	bytes := make([]byte, tableBytes)
	c.readings = probe.StartReadings(countersInTable, readingPeriod, func(into []uint64) error {
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

// Coverage returns how the calls are counted.
func (c *BPFCounter) Coverage() probe.Coverage {
	coverage := probe.Coverage{Method: "BPF on every system call"}
	if c.ends.Unfollowed != nil {
		coverage.Unfollowed = fmt.Sprintf("their system calls: %v", c.ends.Unfollowed)
	}
	return coverage
}

// AddProcess starts to count the calls of a process of the server or the client.
func (c *BPFCounter) AddProcess(end probe.End, pid int) error {
	return c.ends.AddProcess(int(end), pid)
}

// enterProgram returns the program that counts a call and stores when the call began.
func (c *BPFCounter) enterProgram() asm.Instructions {
	const kind = bpf.SpareRegister
	return slices.Concat(c.ends.FilterProcesses(), asm.Instructions{
		asm.LoadMem(kind, bpf.ContextRegister, 8, asm.DWord), // second argument of sys_enter
		asm.JGE.Imm(kind, maxSyscalls, bpf.ExitLabel),
		c.counted.LoadPointer(asm.R3, 0),
		asm.Mov.Reg(asm.R2, bpf.EndRegister),
		asm.Mul.Imm(asm.R2, bytesPerEnd),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.Mov.Reg(asm.R2, kind),
		asm.Mul.Imm(asm.R2, bytesPerSyscall),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R3, asm.R1, asm.DWord, 0),

		asm.FnKtimeGetNs.Call(),
	}, c.underWay.LoadPlace(asm.R3), asm.Instructions{
		asm.StoreMem(asm.R3, 0, bpf.ThreadRegister, asm.Word),
		asm.StoreMem(asm.R3, 4, kind, asm.Word),
		asm.StoreMem(asm.R3, 8, asm.R0, asm.DWord),
	})
}

// exitProgram returns the program that adds the time of a call that has returned.
func (c *BPFCounter) exitProgram() asm.Instructions {
	const place = bpf.SpareRegister
	// A call that began before the programs ran has no entry in the table.
	return slices.Concat(c.ends.FilterProcesses(), c.underWay.FindPlace(place), asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, place, 8, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R1),
		asm.StoreImm(place, 0, 0, asm.Word),
		asm.LoadMem(asm.R1, place, 4, asm.Word),
		asm.JGE.Imm(asm.R1, maxSyscalls, bpf.ExitLabel),
		c.counted.LoadPointer(asm.R3, 0),
		asm.Mul.Imm(asm.R1, bytesPerSyscall),
		asm.Add.Reg(asm.R3, asm.R1),
		asm.Mul.Imm(bpf.EndRegister, bytesPerEnd),
		asm.Add.Reg(asm.R3, bpf.EndRegister),
		asm.AddAtomic.Mem(asm.R3, asm.R0, asm.DWord, 8),
	})
}

// Stop stops the programs, and returns the counts and times in the window.
func (c *BPFCounter) Stop(window probe.MeasuredWindow) (probe.Findings, error) {
	c.readings.Stop()
	var findings probe.Findings
	grown, err := c.readings.Between(window.Span)
	if err := errors.Join(err, c.session.Close()); err != nil {
		return findings, err
	}
	for _, end := range []probe.End{probe.Server, probe.Client} {
		seen := findings.ForEnd(end)
		seen.Method = c.Coverage().Method
		for kind := range maxSyscalls {
			at := (int(end)*maxSyscalls + kind) * bytesPerSyscall / 8
			addSyscall(seen, record.Syscall{Name: syscallName(kind), NS: new(int64(grown[at+1]))}, grown[at])
		}
	}
	return findings, nil
}

// addSyscall inserts a system call unless its count is zero. The list is sorted by count, the
// largest first.
func addSyscall(seen *record.Seen, calls record.Syscall, count float64) {
	if calls.Count = int64(math.Round(count)); calls.Count <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(seen.Syscalls, calls, func(a, b record.Syscall) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	seen.Syscalls = slices.Insert(seen.Syscalls, at, calls)
}

func syscallName(kind int) string { return cmp.Or(names[kind], fmt.Sprintf("number %d", kind)) }

// Start starts the best counter that the machine allows.
func Start() (probe.Watch, error) {
	census, err := startBPFCounter()
	if err == nil {
		return census, nil
	}
	if !errors.Is(err, host.ErrUnsupported) {
		return nil, err
	}
	tracepoints, err2 := startTracepointCounter()
	if err2 == nil {
		tracepoints.addMissing("the durations of calls, and all calls with other names", err)
		return tracepoints, nil
	}
	if !errors.Is(err2, host.ErrUnsupported) {
		return nil, err2
	}
	procfs, err3 := startProcfsCounter()
	if err3 == nil {
		procfs.addMissing("the number and the durations of the calls of each name", err)
		return procfs, nil
	}
	return nil, fmt.Errorf("%w; tracepoints: %w; /proc: %w", err, err2, err3)
}
