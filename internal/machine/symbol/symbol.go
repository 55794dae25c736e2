// Package symbol finds the names of functions by program counter, in other processes and in the
// kernel.
//
// For processes that run the same program as this one, it asks the Go runtime, which also knows
// inlined functions. For other programs, it reads the symbols of their files: Go's function table,
// or the ELF symbols. For functions that a virtual machine compiles in memory, it reads the machine's own
// list, /tmp/perf-PID.map. If it finds no function, it returns the name of the file.
package symbol

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/ianlancetaylor/demangle"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

// A Process finds the functions of a process, even after the process has ended.
type Process struct {
	pid      int
	compiled compiledCode
	mappings []mapping
	objects  map[string]functionLookup // by path of the file; filled on demand
	named    map[uint64][]record.Frame
	called   map[uint64]uint64 // by return address; 0: unknown
}

// A mapping is executable memory of a process: a part of a file, or code that the process has compiled.
type mapping struct {
	start, end, offset uint64
	path               string
	program            bool // the file is the process's program, not a library
	own                bool // the file is also this process's program
}

// ReadProcess reads the memory mappings of a process.
func ReadProcess(pid int) (*Process, error) {
	folder := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(folder + "/maps")
	program, err2 := os.Stat(folder + "/exe")
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("find the program file of process %d: %w", pid, err)
	}
	p := &Process{pid: pid, objects: map[string]functionLookup{}, named: map[uint64][]record.Frame{}, called: map[uint64]uint64{}}
	if p.mappings, err = parseMappings(text); err != nil {
		return nil, fmt.Errorf("parse %s/maps: %w", folder, err)
	}
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("find the program file of this process: %w", err)
	}
	for i := range p.mappings {
		m := &p.mappings[i]
		file, err := os.Stat(folder + "/root" + m.path)
		m.program = err == nil && os.SameFile(file, program)
		m.own = m.program && os.SameFile(own, program)
	}
	return p, nil
}

// parseMappings returns the executable mappings in the text of /proc/PID/maps (proc_pid_maps(5)).
func parseMappings(text []byte) (all []mapping, _ error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || !strings.Contains(fields[1], "x") {
			continue
		}
		first, last, found := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(first, 16, 64)
		end, err2 := strconv.ParseUint(last, 16, 64)
		offset, err3 := strconv.ParseUint(fields[2], 16, 64)
		if err := errors.Join(err1, err2, err3); !found || err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		path := strings.TrimSuffix(strings.Join(fields[5:], " "), " (deleted)")
		all = append(all, mapping{start: start, end: end, offset: offset, path: path})
	}
	return all, lines.Err()
}

// Frames returns the function at a program counter, and then the functions into which it was
// inlined. innermost means that pc is the first counter of a stack. Other counters point behind a
// call instruction, which may be the last instruction of its function.
func (p *Process) Frames(pc uint64, innermost bool) []record.Frame {
	if !innermost {
		pc--
	}
	if frames, known := p.named[pc]; known {
		return frames
	}
	frames := p.findFrames(pc)
	p.named[pc] = frames
	return frames
}

func (p *Process) findFrames(pc uint64) []record.Frame {
	m := p.mappingAt(pc)
	if m == nil {
		return p.compiledFrames(pc, false)
	}
	if m.isCompiled() {
		return p.compiledFrames(pc, true)
	}
	in := ""
	if !m.program {
		in = filepath.Base(m.path)
	}
	functions := p.lookupFor(m)(pc - m.start + m.offset)
	if len(functions) == 0 {
		return []record.Frame{{Function: "[" + strings.Trim(filepath.Base(m.path), "[]") + "]", In: in}}
	}
	return lists.Map(functions, func(function string) record.Frame { return record.Frame{Function: function, In: in} })
}

func (p *Process) mappingAt(pc uint64) *mapping {
	at := sort.Search(len(p.mappings), func(i int) bool { return p.mappings[i].end > pc })
	if at == len(p.mappings) || pc < p.mappings[at].start {
		return nil
	}
	return &p.mappings[at]
}

// FileAt returns the file that has the code at a program counter, and where. It returns false if no file has it.
func (p *Process) FileAt(pc uint64) (path string, offset uint64, known bool) {
	m := p.mappingAt(pc)
	if m == nil || m.isCompiled() {
		return "", 0, false
	}
	return p.openPath(m), pc - m.start + m.offset, true
}

// Files lists the files with code of the process.
func (p *Process) Files() (paths []string) {
	for i := range p.mappings {
		if !p.mappings[i].isCompiled() {
			paths = lists.AppendNew(paths, p.openPath(&p.mappings[i]))
		}
	}
	return paths
}

// openPath returns the path by which a mapped file can be opened, also if the process has another root.
func (p *Process) openPath(m *mapping) string { return fmt.Sprintf("/proc/%d/root%s", p.pid, m.path) }

// IsCode reports whether the process has code at an address.
func (p *Process) IsCode(address uint64) bool { return p.mappingAt(address) != nil }

// IsOwnProgram reports whether the process runs the same program as this one.
func (p *Process) IsOwnProgram() bool {
	return slices.ContainsFunc(p.mappings, func(m mapping) bool { return m.own })
}

// isCompiled reports whether the memory holds code that the process has compiled itself.
func (m *mapping) isCompiled() bool {
	return m.path == "" || slices.ContainsFunc([]string{"[anon", "//anon", "/memfd:", "/dev/zero", "anon_inode"}, func(begin string) bool { return strings.HasPrefix(m.path, begin) })
}

func (p *Process) lookupFor(m *mapping) functionLookup {
	found := p.objects[m.path]
	if found == nil {
		if m.own {
			found = ownProgramLookup()
		} else {
			found = openLookup(m.path)
		}
		p.objects[m.path] = found
	}
	return found
}

// A functionLookup returns the names of the functions at an offset in a file.
type functionLookup func(offset uint64) []string

func ownProgramLookup() functionLookup {
	text, _ := os.ReadFile("/proc/self/maps")
	mappings, _ := parseMappings(text)
	return func(offset uint64) (names []string) {
		for _, m := range mappings {
			if offset < m.offset || offset-m.offset >= m.end-m.start {
				continue
			}
			// CallersFrames expects return addresses, and does not expand inlined functions of the
			// last one. So add a last address without a function.
			const nowhere = 1
			frames := runtime.CallersFrames([]uintptr{uintptr(offset - m.offset + m.start + 1), nowhere})
			for more := true; more; {
				var frame runtime.Frame
				if frame, more = frames.Next(); frame.Function != "" {
					names = append(names, frame.Function)
				}
			}
			return names // the program is mapped before its libraries
		}
		return nil
	}
}

func openLookup(path string) functionLookup {
	unknown := func(uint64) []string { return nil }
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return unknown // not a file, such as [vdso]
	}
	file, err := elf.Open(path)
	if err != nil {
		return unknown
	}
	defer func() { _ = file.Close() }() // the file was only read
	address := AddressOf(file)
	var name func(uint64) string
	if name = goFunctionNames(file); name == nil {
		name = elfFunctionNames(file)
	}
	return func(offset uint64) []string {
		at, mapped := address(offset)
		if !mapped {
			return nil
		}
		if found := name(at); found != "" {
			return []string{found}
		}
		return nil
	}
}

// AddressOf returns a function that says at which address an offset in a file is meant to be in memory.
func AddressOf(file *elf.File) func(offset uint64) (address uint64, mapped bool) {
	return func(offset uint64) (uint64, bool) {
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_LOAD && segment.Off <= offset && offset < segment.Off+segment.Filesz {
				return offset - segment.Off + segment.Vaddr, true
			}
		}
		return 0, false
	}
}

// goFunctionNames returns a lookup by address in a Go program's function table, or nil if the file
// has no such table.
func goFunctionNames(file *elf.File) func(uint64) string {
	symbols, err := readGoTable(file)
	if symbols == nil || err != nil {
		return nil
	}
	return func(address uint64) string {
		if function := symbols.PCToFunc(address); function != nil {
			return function.Name
		}
		return ""
	}
}

// elfFunctionNames returns a lookup by address in the ELF symbols of a program.
func elfFunctionNames(file *elf.File) func(uint64) string {
	static, _ := file.Symbols() // most programs lack these symbols
	dynamic, _ := file.DynamicSymbols()
	var functions []elf.Symbol
	for _, symbol := range append(static, dynamic...) {
		if elf.ST_TYPE(symbol.Info) == elf.STT_FUNC && symbol.Value > 0 {
			functions = append(functions, symbol)
		}
	}
	sort.SliceStable(functions, func(i, j int) bool { return functions[i].Value < functions[j].Value })
	return func(address uint64) string {
		after := sort.Search(len(functions), func(i int) bool { return functions[i].Value > address })
		if after == 0 {
			return ""
		}
		found := functions[after-1]
		if found.Size > 0 && address >= found.Value+found.Size {
			return ""
		}
		return demangle.Filter(found.Name, demangle.NoParams, demangle.NoTemplateParams)
	}
}

// A Kernel holds the functions of the running kernel.
type Kernel struct{ functions []kernelFunction } // sorted by start address

type kernelFunction struct {
	start uint64
	name  string
}

// LoadKernel returns the kernel's functions. It reads them only once.
var LoadKernel = sync.OnceValues(func() (*Kernel, error) {
	file, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("read the names of the kernel's functions: %w: %w", host.ErrUnsupported, err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	return parseKernelSymbols(bufio.NewScanner(file))
})

var errHiddenAddresses = fmt.Errorf("read the names of the kernel's functions: %w: the kernel hides their addresses; set sysctl kernel.kptr_restrict=0, or run as root", host.ErrUnsupported)

// parseKernelSymbols parses lines such as `ffffffff81000000 T _stext [module]`.
func parseKernelSymbols(lines *bufio.Scanner) (*Kernel, error) {
	k := &Kernel{}
	for lines.Scan() {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 3 || len(fields[1]) != 1 || !bytes.ContainsAny(fields[1], "tTwW") {
			continue
		}
		start, err := strconv.ParseUint(string(fields[0]), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("parse /proc/kallsyms: %w", err)
		}
		if start > 0 {
			k.functions = append(k.functions, kernelFunction{start, string(fields[2])})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read /proc/kallsyms: %w", err)
	}
	if len(k.functions) == 0 {
		return nil, errHiddenAddresses
	}
	slices.SortStableFunc(k.functions, func(a, b kernelFunction) int { return cmp.Compare(a.start, b.start) })
	return k, nil
}

// FunctionName returns the name of the function that contains a program counter, or "".
func (k *Kernel) FunctionName(pc uint64) string {
	if k == nil {
		return "" // the kernel hides its functions
	}
	after := sort.Search(len(k.functions), func(i int) bool { return k.functions[i].start > pc })
	if after == 0 {
		return ""
	}
	return k.functions[after-1].name
}
