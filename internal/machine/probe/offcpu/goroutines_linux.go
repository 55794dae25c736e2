package offcpu

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/cilium/ebpf/asm"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/machine/bpf"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/symbol"
)

// The functions of the Go runtime at which a goroutine begins to wait and ends it. A goroutine that is
// made ready by another one ends its wait at runtime.ready: its time in the run queue is no part of the
// wait. One that the network or a signal wakes ends it when it runs.
const parkFunction = "runtime.gopark"

var wakeFunctions = []string{"runtime.ready", "runtime.execute"}

// goroutines records the waits of goroutines. The functions above take a trap into the kernel each.
type goroutines struct {
	park, wake *bpf.FunctionProgram
	unusable   error
	watched    int      // number of Go processes
	missing    []string // processes of Go whose goroutines are not watched, and why
}

// A goroutine that waits has an entry with a key of keyBytes, its address and its process, and a value of
// entryBytes: when it began, its return address, its process and end, and its stack.
const (
	keyBytes, entryBytes = 16, 32
	maxGoroutines        = 1 << 16
	belowKey, belowEntry = 24, 56 // distances from the end of the program's stack
)

func newGoroutines(w *Watch) *goroutines {
	g := &goroutines{unusable: bpf.SupportsGoFunctions()}
	if g.unusable != nil {
		return g
	}
	parked := w.session.NewHashTable("parked", keyBytes, entryBytes, maxGoroutines)
	if w.session.Err() == nil {
		g.park = w.session.NewFunctionProgram("park", w.parkProgram(parked))
		g.wake = w.session.NewFunctionProgram("wake", w.wakeProgram(parked))
	}
	return g
}

// storeKey returns instructions that write a goroutine's key. goroutine loads its address into R1, and
// SpareRegister holds its process.
func storeKey(goroutine asm.Instruction) asm.Instructions {
	return asm.Instructions{
		goroutine,
		asm.StoreMem(asm.RFP, -belowKey, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, -belowKey+8, bpf.SpareRegister, asm.DWord),
	}
}

// parkProgram returns the program that stores when and where a goroutine begins to wait.
func (w *Watch) parkProgram(parked *bpf.HashTable) asm.Instructions {
	return slices.Concat(w.ends.FilterProcesses(), asm.Instructions{
		asm.Mov.Reg(bpf.SpareRegister, asm.R0),
	}, storeKey(bpf.LoadGoroutine(asm.R1)), asm.Instructions{
		asm.StoreMem(asm.RFP, -belowEntry+16, bpf.SpareRegister, asm.Word),
		asm.StoreMem(asm.RFP, -belowEntry+20, bpf.EndRegister, asm.Word),
	}, bpf.CopyReturnAddress(belowEntry-8), w.stacks.CaptureStack(true), asm.Instructions{
		asm.StoreMem(asm.RFP, -belowEntry+24, asm.R0, asm.Word),
		asm.StoreImm(asm.RFP, -belowEntry+28, 0, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -belowEntry, asm.R0, asm.DWord),
	}, parked.Put(belowKey, belowEntry))
}

// wakeProgram returns the program that writes the event of a goroutine whose wait ends. It runs at
// functions whose first argument is the goroutine.
func (w *Watch) wakeProgram(parked *bpf.HashTable) asm.Instructions {
	const (
		entry = bpf.SpareRegister
		event = 72 // distance of the event from the stack's end, in bytes
	)
	return slices.Concat(w.ends.FilterProcesses(), asm.Instructions{
		asm.Mov.Reg(bpf.SpareRegister, asm.R0),
	}, storeKey(bpf.LoadGoArgument(asm.R1)), parked.Find(belowKey), asm.Instructions{
		asm.Mov.Reg(entry, asm.R0),
		asm.LoadMem(asm.R1, entry, 0, asm.DWord),
		asm.StoreMem(asm.RFP, -event, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, entry, 24, asm.Word), // the stack
		asm.StoreMem(asm.RFP, -event+16, asm.R1, asm.Word),
		asm.StoreImm(asm.RFP, -event+20, -1, asm.Word), // no stack in the kernel
		asm.LoadMem(asm.R1, entry, 20, asm.Word),
		asm.StoreMem(asm.RFP, -event+24, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, entry, 16, asm.Word),
		asm.StoreMem(asm.RFP, -event+28, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, entry, 8, asm.DWord),
		asm.StoreMem(asm.RFP, -event+32, asm.R1, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -event+8, asm.R0, asm.DWord),
	}, parked.Delete(belowKey), w.events.Emit(event, eventBytes))
}

// watch starts to watch the goroutines of a process, if it is a Go program.
func (g *goroutines) watch(pid int) {
	offsets, err := symbol.FindGoFunctions("/proc/"+strconv.Itoa(pid)+"/exe", append(wakeFunctions, parkFunction)...)
	if offsets == nil && (err == nil || !errors.Is(err, host.ErrUnsupported)) {
		return // no Go program, or it has ended
	}
	err = errors.Join(err, g.unusable)
	for _, function := range append(wakeFunctions, parkFunction) {
		if err != nil {
			g.missing = lists.AppendNew(g.missing, fmt.Sprintf("waits of the goroutines of process %d: %v", pid, err))
			return
		}
		program := g.wake
		if function == parkFunction {
			program = g.park
		}
		err = program.Attach(pid, offsets[function])
	}
	g.watched++
}

// tryGoroutines reports whether this machine lets programs run at functions of a Go program, by trying it
// with this process.
var tryGoroutines = sync.OnceValue(func() (err error) {
	if err := bpf.SupportsGoFunctions(); err != nil {
		return err
	}
	offsets, err := symbol.FindGoFunctions("/proc/self/exe", parkFunction)
	if err != nil {
		return err
	}
	var session bpf.Session
	program := session.NewFunctionProgram("try", asm.Instructions{asm.Mov.Reg(bpf.ContextRegister, asm.R1)})
	if err := session.Err(); err != nil {
		return errors.Join(err, session.Close())
	}
	return errors.Join(program.Attach(os.Getpid(), offsets[parkFunction]), session.Close())
})

// withCaller adds the caller of the function that makes a goroutine wait to its stack. The kernel finds
// the other callers by frame pointers, which a function has not yet set at its entry.
func (w wait) withCaller(stack []uint64) []uint64 {
	if w.caller == 0 || len(stack) == 0 || len(stack) > 1 && stack[1] == w.caller {
		return stack
	}
	return slices.Insert(slices.Clone(stack), 1, w.caller)
}
