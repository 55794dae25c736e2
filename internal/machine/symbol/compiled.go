package symbol

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"wirelab.dev/internal/data/record"
)

// A compiledCode holds the functions that a process has compiled in memory while it ran, as virtual machines
// do. Many of them can list these functions in the file /tmp/perf-PID.map (jit-interface.txt of perf).
type compiledCode struct {
	read      bool
	functions []compiledFunction // sorted by start address
	unnamed   bool               // a function was looked up and not found
}

type compiledFunction struct {
	start, size uint64
	name        string
}

const (
	maxCompiledBytes     = 64 << 20 // of a file; a larger one is cut
	maxCompiledFunctions = 1 << 20
)

// parseCompiled parses lines such as `7f3c01a0 40 java.util.HashMap.get`: start and size are hexadecimal. It skips
// other lines, because the process may be writing one.
func parseCompiled(from io.Reader) []compiledFunction {
	var all []compiledFunction
	lines := bufio.NewScanner(io.LimitReader(from, maxCompiledBytes))
	for lines.Scan() && len(all) < maxCompiledFunctions {
		fields := strings.SplitN(lines.Text(), " ", 3)
		if len(fields) < 3 || fields[2] == "" {
			continue
		}
		start, err := strconv.ParseUint(strings.TrimPrefix(fields[0], "0x"), 16, 64)
		size, err2 := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64)
		if err == nil && err2 == nil && size > 0 {
			all = append(all, compiledFunction{start, size, shortName(fields[2])})
		}
	}
	slices.SortStableFunc(all, func(a, b compiledFunction) int { return cmp.Compare(a.start, b.start) })
	return all
}

// shortName leaves out result and parameters, as in `int java.lang.Integer.parseInt(java.lang.String, int)`.
func shortName(name string) string {
	before, _, found := strings.Cut(name, "(")
	if !found || !strings.HasSuffix(name, ")") {
		return name
	}
	return before[strings.LastIndex(before, " ")+1:]
}

// name returns the name of the function that contains an address, or "". Of several functions that were compiled
// to one address, the last one counts.
func (c *compiledCode) name(address uint64) string {
	after := sort.Search(len(c.functions), func(i int) bool { return c.functions[i].start > address })
	if after == 0 {
		return ""
	}
	if found := c.functions[after-1]; address-found.start < found.size {
		return found.name
	}
	return ""
}

// compiledFrames returns the function at an address that belongs to no file.
func (p *Process) compiledFrames(pc uint64, mapped bool) []record.Frame {
	c := &p.compiled
	if !c.read { // as late as possible, as the process adds functions
		c.read = true
		if list, closeList, err := p.openCompiled(); err == nil {
			c.functions = parseCompiled(list)
			closeList()
		}
	}
	name := c.name(pc)
	switch {
	case name != "":
		return []record.Frame{{Function: name}}
	case mapped:
		c.unnamed = true
		return []record.Frame{{Function: "[compiled in memory]"}}
	}
	return nil // not a program counter: the stack contains a wrong frame pointer
}

// virtualMachines maps the beginning of a file's name to how its virtual machine lists its functions.
var virtualMachines = []struct{ file, remedy string }{
	{"libjvm.so", "use Java 17 or later, start it with -XX:+PreserveFramePointer, and without -XX:+DisableAttachMechanism"},
	{"node", "start Node with --perf-basic-prof"},
	{"libnode", "start Node with --perf-basic-prof"},
	{"python", "start Python 3.12 or later with -X perf"},
	{"libpython", "start Python 3.12 or later with -X perf"},
}

// WhyUnnamed says which functions of the process have no names, and how to get them. It returns "" if the process has
// no such functions, as far as they were looked up.
func (p *Process) WhyUnnamed() string {
	if len(p.compiled.functions) > 0 {
		return ""
	}
	for _, m := range p.mappings {
		for _, vm := range virtualMachines {
			if strings.HasPrefix(filepath.Base(m.path), vm.file) {
				return fmt.Sprintf("names of the functions of process %d that run in a virtual machine: there is no /tmp/perf-%d.map of its user; %s", p.pid, p.pid, vm.remedy)
			}
		}
	}
	if p.compiled.unnamed {
		return fmt.Sprintf("names of the functions that process %d has compiled in memory: there is no /tmp/perf-%d.map of its user", p.pid, p.pid)
	}
	return ""
}
