// Package unwind finds the callers of functions without frame pointers, as compilers of C, C++ and Rust leave
// them out by default. It needs the registers and a copy of the stack, and reads in the files of the process how
// each function changes them (.eh_frame, or .debug_frame of Go). Functions without such a description, as those of
// virtual machines, must have frame pointers.
package unwind

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/symbol"
)

// An Unwinder unwinds stacks of one process.
type Unwinder struct {
	pid     int
	process *symbol.Process
	read    time.Time // when its memory map was read
	tables  map[string]*table
}

// New returns an unwinder for a process, with its files read. It returns nil for a process that runs the same
// program as this one, whose functions have frame pointers, or that has no readable memory map.
func New(pid int) (*Unwinder, error) {
	process, err := symbol.ReadProcess(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || err == nil && process.IsOwnProgram() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u := &Unwinder{pid: pid, process: process, read: time.Now(), tables: map[string]*table{}}
	for _, path := range process.Files() {
		u.table(path)
	}
	return u, nil
}

// isCode reports whether the process has code at an address. It may have loaded a library since its memory map
// was read.
func (u *Unwinder) isCode(address uint64) bool {
	const again = 100 * time.Millisecond
	if u.process.IsCode(address) || time.Since(u.read) < again {
		return u.process.IsCode(address)
	}
	u.read = time.Now()
	if process, err := symbol.ReadProcess(u.pid); err == nil { // otherwise it has ended
		u.process = process
	}
	return u.process.IsCode(address)
}

func (u *Unwinder) table(path string) *table {
	t := u.tables[path]
	if t == nil {
		t = readTable(path)
		u.tables[path] = t
	}
	return t
}

// maxDepth is the greatest number of functions of a stack, as the kernel has it for frame pointers.
const maxDepth = 127

// Unwind returns the program counters of a stack, the innermost first. stack is a copy of the memory from the
// stack pointer on. Where the copy ends, the result ends.
func (u *Unwinder) Unwind(registers perfevent.Registers, stack []byte) []uint64 {
	w := walk{Registers: registers, stack: stack, from: registers.Value[pointers.stack]}
	counters := []uint64{w.PC}
	for len(counters) < maxDepth && u.step(&w, len(counters) == 1) {
		counters = append(counters, w.PC)
	}
	return counters
}

// step goes to the caller of the current function. It returns false if that is unknown.
func (u *Unwinder) step(w *walk, innermost bool) bool {
	at := w.PC
	if !innermost {
		at-- // a return address may be behind the last instruction of its function
	}
	before := w.Value[pointers.stack]
	path, offset, known := u.process.FileAt(at)
	if known {
		if r := u.table(path).ruleAt(offset); r != nil {
			return w.apply(r, innermost) && w.Value[pointers.stack] >= before && u.isCode(w.PC)
		}
	}
	return w.followFramePointer() && w.Value[pointers.stack] > before && u.isCode(w.PC)
}

const registerCount = uint64(len(perfevent.Registers{}.Value))

// pointers holds the numbers of two registers in DWARF.
var pointers = map[string]struct{ stack, frame uint64 }{"amd64": {7, 6}, "arm64": {31, 29}}[runtime.GOARCH]

// A walk is a position in a stack.
type walk struct {
	perfevent.Registers
	stack []byte
	from  uint64 // address of the stack's copy
}

func (w *walk) read(address uint64) (value uint64, copied bool) {
	at := address - w.from
	if address < w.from || at > uint64(len(w.stack)) || uint64(len(w.stack))-at < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(w.stack[at:]), true
}

func (w *walk) followFramePointer() bool {
	at := w.Value[pointers.frame]
	caller, known := w.read(at)
	returns, also := w.read(at + 8)
	if !known || !also {
		return false
	}
	w.PC, w.Value[pointers.frame], w.Value[pointers.stack] = returns, caller, at+16
	return true
}

// apply applies a rule to the registers.
func (w *walk) apply(r *rule, innermost bool) bool {
	base := w.Value[r.base] + uint64(r.distance)
	if r.isJump && w.PC%16 >= 11 { // behind the instruction that pushes
		base += 8
	}
	// A function that calls nothing may leave the return address in its register (arm64).
	returns, known := w.Value[r.returns], innermost
	for _, s := range r.saved {
		value, copied := w.read(base + uint64(s.distance))
		switch {
		case s.register == r.returns:
			returns, known = value, copied
		case copied:
			w.Value[s.register] = value
		}
	}
	w.PC, w.Value[r.returns], w.Value[pointers.stack] = returns, returns, base
	return known && !r.ends
}

// A rule says how a function's caller is found at one instruction.
type rule struct {
	base     uint64 // the register from which the caller's stack pointer is computed
	distance int64
	saved    []saved
	returns  uint64 // number of the return address
	ends     bool   // there is no caller
	isJump   bool   // a jump to a function of another file (PLT)
}

// A saved register is in memory, at a distance from the caller's stack pointer.
type saved struct {
	register uint64
	distance int64
}

// A table holds the rules of a file, by offset in the file.
type table struct {
	entries frame.FrameDescriptionEntries
	address func(offset uint64) (uint64, bool)
	rules   map[uint64]*rule // nil: there is none
}

// ruleAt returns the rule of the instruction at an offset in the file, or nil.
func (t *table) ruleAt(offset uint64) *rule {
	r, looked := t.rules[offset]
	if !looked {
		if address, mapped := t.address(offset); mapped {
			r = findRule(t.entries, address)
		}
		t.rules[offset] = r
	}
	return r
}

// mostTableBytes is the size beyond which a section is not read. A compressed one may claim any size.
const mostTableBytes = 64 << 20

// readTable reads the rules of a file. A file that cannot be read has none.
func readTable(path string) *table {
	t := &table{address: func(uint64) (uint64, bool) { return 0, false }, rules: map[uint64]*rule{}}
	file, err := elf.Open(path)
	if err != nil {
		return t
	}
	defer func() { _ = file.Close() }() // the file was only read
	for _, name := range []string{".eh_frame", ".debug_frame"} {
		section := file.Section(name)
		if section == nil || section.Type == elf.SHT_NOBITS || section.Size > mostTableBytes {
			continue
		}
		data, err := section.Data()
		if err != nil {
			continue
		}
		start := section.Addr
		if name == ".debug_frame" {
			start = 0 // this tells the parser which of the two formats it is
		}
		entries, _ := parseEntries(data, file.ByteOrder, start)
		t.entries = append(t.entries, entries...)
	}
	slices.SortStableFunc(t.entries, func(a, b *frame.FrameDescriptionEntry) int {
		return cmp.Compare(a.Begin(), b.Begin())
	})
	t.address = symbol.AddressOf(file)
	return t
}

var errDamaged = errors.New("the description of stack frames is damaged")

// parseEntries parses a section. The parser panics at some damaged sections.
func parseEntries(data []byte, order binary.ByteOrder, start uint64) (entries frame.FrameDescriptionEntries, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return frame.Parse(data, order, 0, 8, start)
}

// findRule returns the rule at an address, or nil if there is none that it understands.
func findRule(entries frame.FrameDescriptionEntries, address uint64) (r *rule) {
	defer func() {
		if recover() != nil { // a damaged entry
			r = nil
		}
	}()
	entry, err := entries.FDEForPC(address)
	if err != nil {
		return nil
	}
	state, err := entry.EstablishFrame(address)
	if err != nil {
		return nil
	}
	r = &rule{base: state.CFA.Reg, distance: state.CFA.Offset, returns: state.RetAddrReg}
	switch {
	case r.returns >= registerCount:
		return nil
	case state.CFA.Rule == frame.RuleExpression && runtime.GOARCH == "amd64":
		r.base, r.distance, r.isJump = pointers.stack, 8, true
		r.saved = []saved{{state.RetAddrReg, -8}}
		return r
	case state.CFA.Rule != frame.RuleCFA || r.base >= registerCount:
		return nil
	}
	for number, one := range state.Regs {
		switch {
		case one.Rule == frame.RuleOffset && number < registerCount:
			r.saved = append(r.saved, saved{number, one.Offset})
		case one.Rule == frame.RuleUndefined && number == r.returns:
			r.ends = true
		}
	}
	return r
}
