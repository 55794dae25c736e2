package symbol

import (
	"debug/buildinfo"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"fmt"
	"go/version"
	"regexp"
	"strings"

	"wirelab.dev/internal/machine/host"
)

// oldestGo is the first version whose functions take arguments in registers on amd64 and arm64.
const oldestGo = "go1.18"

// FindGoFunctions returns the offsets of functions in the file of a Go program, each of an instruction at
// which arguments and return address are where they are at the function's entry. The function table is
// there even if the program was built with -ldflags='-s -w'. It returns nil if the file is no Go program.
// If the functions cannot be found, the error wraps host.ErrUnsupported.
func FindGoFunctions(path string, names ...string) (map[string]uint64, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the functions of %s: %w", path, err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	table, err := readGoTable(file)
	if table == nil || err != nil {
		return nil, err
	}
	if built, err := buildinfo.ReadFile(path); err == nil && version.IsValid(built.GoVersion) && version.Compare(built.GoVersion, oldestGo) < 0 {
		return nil, fmt.Errorf("%w: the program was built with %s; build it with %s or later", host.ErrUnsupported, built.GoVersion, oldestGo)
	}
	found := map[string]uint64{}
	for _, name := range names {
		function := table.LookupFunc(name)
		if function == nil {
			return nil, fmt.Errorf("%w: the program has no function %s; build it with the usual Go compiler", host.ErrUnsupported, name)
		}
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_LOAD && segment.Vaddr <= function.Entry && function.Entry < segment.Vaddr+segment.Filesz {
				offset := function.Entry - segment.Vaddr + segment.Off
				code := make([]byte, min(longestPrologue, function.End-function.Entry))
				if _, err := segment.ReadAt(code, int64(function.Entry-segment.Vaddr)); err != nil {
					return nil, fmt.Errorf("read the function %s of %s: %w", name, path, err)
				}
				found[name] = offset + uint64(stackCheckBytes(file.Machine, code))
			}
		}
	}
	return found, nil
}

const longestPrologue = 24

// goStackCheck matches the beginning of a Go function on amd64. The function compares the stack pointer, or a
// lower address, with the stack's end in the goroutine (R14), and jumps if the stack must grow. Then it pushes
// the frame pointer.
var goStackCheck = regexp.MustCompile(`(?s)^((?:\x4c\x8d(?:\x64\x24.|\xa4\x24.{4})\x4d|\x49)\x3b\x66\x10(?:\x76.|\x0f\x86.{4}))\x55`)

// stackCheckBytes returns the number of bytes before the instruction that pushes the frame pointer. The kernel
// emulates this instruction, so that a uprobe there takes one trap in place of two.
func stackCheckBytes(machine elf.Machine, code []byte) int {
	latin := make([]rune, len(code)) // a regular expression reads runes
	for i, b := range code {
		latin[i] = rune(b)
	}
	if check := goStackCheck.FindStringSubmatch(string(latin)); machine == elf.EM_X86_64 && check != nil {
		return len([]rune(check[1]))
	}
	return 0
}

// readGoTable reads a Go program's function table. It returns nil if the file has no such table.
func readGoTable(file *elf.File) (*gosym.Table, error) {
	section := file.Section(".gopclntab")
	if section == nil {
		section = file.Section(".data.rel.ro.gopclntab") // of position-independent programs before Go 1.26
	}
	text := file.Section(".text")
	if section == nil || text == nil {
		return nil, nil
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read a Go function table: %w", err)
	}
	for _, start := range textStarts(file, data, text) {
		table, err := gosym.NewTable(nil, gosym.NewLineTable(data, start))
		if err != nil {
			return nil, fmt.Errorf("read a Go function table: %w: %w; build the program with the usual Go linker", host.ErrUnsupported, err)
		}
		// A program that C's linker has linked begins with functions of C.
		if entry := table.PCToFunc(file.Entry); start != text.Addr || entry != nil && strings.HasPrefix(entry.Name, "_rt0_") {
			return table, nil
		}
	}
	return nil, fmt.Errorf("read a Go function table: %w: C's linker has linked the program, and it has no symbols; build it without -ldflags=-s", host.ErrUnsupported)
}

// textStarts lists the addresses at which the Go code of a file may begin, the most certain first.
func textStarts(file *elf.File, table []byte, text *elf.Section) (starts []uint64) {
	symbols, _ := file.Symbols() // a stripped program has none
	for _, symbol := range symbols {
		if symbol.Name == "runtime.text" {
			return []uint64{symbol.Value}
		}
	}
	const textStart = 24 // offset in pcHeader of runtime/symtab.go, from Go 1.18 to 1.25 for fixed addresses
	starts = []uint64{text.Addr}
	if len(table) >= textStart+8 {
		if start := binary.NativeEndian.Uint64(table[textStart:]); start > text.Addr && start < text.Addr+text.Size {
			starts = append(starts, start)
		}
	}
	return starts
}
