// Package symbol names the functions that contain program counters of other processes and of the
// kernel.
//
// For processes of this very program it asks the Go runtime, which also knows inlined functions.
// For other programs it uses the symbols of their files: Go's own table, or ELF's. A counter
// without a known function is named after its file.
package symbol

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
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

// Process names the program counters of a process, which may have ended meanwhile.
type Process struct {
	mappings []mapping
	objects  map[string]object // by file; filled on demand
	named    map[uint64][]record.Frame
}

// A mapping is an executable part of a file in a process.
type mapping struct {
	start, end, offset uint64
	path               string
	program            bool // of the process's own executable
	own                bool // of the program that runs here
}

// Of reads the mappings of a process.
func Of(pid int) (*Process, error) {
	folder := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(folder + "/maps")
	program, err2 := os.Stat(folder + "/exe")
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("find what process %d runs: %w", pid, err)
	}
	p := &Process{objects: map[string]object{}, named: map[uint64][]record.Frame{}}
	if p.mappings, err = parseMappings(text); err != nil {
		return nil, fmt.Errorf("parse %s/maps: %w", folder, err)
	}
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("find what runs here: %w", err)
	}
	for i := range p.mappings {
		m := &p.mappings[i]
		file, err := os.Stat(folder + "/root" + m.path)
		m.program = err == nil && os.SameFile(file, program)
		m.own = m.program && os.SameFile(own, program)
	}
	return p, nil
}

// parseMappings reads the executable mappings in /proc/PID/maps, proc_pid_maps(5).
func parseMappings(text []byte) (all []mapping, _ error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.Contains(fields[1], "x") {
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

// Frames names the functions at a program counter, the innermost first: one, and the functions
// that it was inlined into. Except for a stack's innermost counter, a counter points after a
// call, which may be the last instruction of its function.
func (p *Process) Frames(pc uint64, innermost bool) []record.Frame {
	if !innermost {
		pc--
	}
	if frames, known := p.named[pc]; known {
		return frames
	}
	frames := p.find(pc)
	p.named[pc] = frames
	return frames
}

func (p *Process) find(pc uint64) []record.Frame {
	at := sort.Search(len(p.mappings), func(i int) bool { return p.mappings[i].end > pc })
	if at == len(p.mappings) || pc < p.mappings[at].start {
		return nil // not a real frame pointer
	}
	m := &p.mappings[at]
	in := ""
	if !m.program {
		in = filepath.Base(m.path)
	}
	functions := p.object(m)(pc - m.start + m.offset)
	if len(functions) == 0 {
		return []record.Frame{{Function: "[" + strings.Trim(filepath.Base(m.path), "[]") + "]", In: in}}
	}
	return lists.Map(functions, func(function string) record.Frame { return record.Frame{Function: function, In: in} })
}

func (p *Process) object(m *mapping) object {
	found := p.objects[m.path]
	if found == nil {
		if m.own {
			found = ownProgram()
		} else {
			found = open(m.path)
		}
		p.objects[m.path] = found
	}
	return found
}

// An object returns the functions at an offset in a file.
type object func(offset uint64) []string

// ownProgram asks the Go runtime of this program.
func ownProgram() object {
	text, _ := os.ReadFile("/proc/self/maps")
	mappings, _ := parseMappings(text)
	return func(offset uint64) (names []string) {
		for _, m := range mappings {
			if offset < m.offset || offset-m.offset >= m.end-m.start {
				continue
			}
			// CallersFrames takes its counters for return addresses. For the last counter it does not
			// name the function that it was inlined into, so a counter without a function follows.
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

// open reads a file's symbols. If there are none, it returns an object without names.
func open(path string) object {
	unknown := func(uint64) []string { return nil }
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return unknown // such as [vdso]
	}
	file, err := elf.Open(path)
	if err != nil {
		return unknown
	}
	defer func() { _ = file.Close() }() // nothing was written
	address := func(offset uint64) (uint64, bool) {
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_LOAD && segment.Off <= offset && offset < segment.Off+segment.Filesz {
				return offset - segment.Off + segment.Vaddr, true
			}
		}
		return 0, false
	}
	var name func(uint64) string
	if name = goNames(file); name == nil {
		name = elfNames(file)
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

// goNames looks functions up in the table of a Go program; nil if the file has none.
func goNames(file *elf.File) func(uint64) string {
	table := file.Section(".gopclntab")
	text := file.Section(".text")
	if table == nil || text == nil {
		return nil
	}
	data, err := table.Data()
	if err != nil {
		return nil
	}
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil
	}
	return func(address uint64) string {
		if function := symbols.PCToFunc(address); function != nil {
			return function.Name
		}
		return ""
	}
}

// elfNames looks functions up in the symbols of any program.
func elfNames(file *elf.File) func(uint64) string {
	static, _ := file.Symbols() // mostly stripped
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

// Kernel holds the functions of the running kernel.
type Kernel struct{ functions []kernelFunction } // by their starts

type kernelFunction struct {
	start uint64
	name  string
}

// OfKernel reads the functions once.
var OfKernel = sync.OnceValues(func() (*Kernel, error) {
	file, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("name the kernel's functions: %w: %w", host.ErrUnsupported, err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	return parseKernel(bufio.NewScanner(file))
})

var errHidden = fmt.Errorf("name the kernel's functions: %w: their addresses are hidden; sysctl kernel.kptr_restrict=0, or run as root", host.ErrUnsupported)

// parseKernel reads lines such as `ffffffff81000000 T _stext [module]`.
func parseKernel(lines *bufio.Scanner) (*Kernel, error) {
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
		return nil, errHidden
	}
	slices.SortStableFunc(k.functions, func(a, b kernelFunction) int { return cmp.Compare(a.start, b.start) })
	return k, nil
}

// Name returns the function that contains a program counter.
func (k *Kernel) Name(pc uint64) string {
	if k == nil {
		return "" // hidden
	}
	after := sort.Search(len(k.functions), func(i int) bool { return k.functions[i].start > pc })
	if after == 0 {
		return ""
	}
	return k.functions[after-1].name
}
