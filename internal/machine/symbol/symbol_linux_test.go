package symbol

import (
	"bufio"
	"errors"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

//go:noinline
func outer() uintptr { return reflect.ValueOf(outer).Pointer() }

// TestOwnFunctions names a function of this very program, as a process of it would be.
func TestOwnFunctions(t *testing.T) {
	p, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	pc := uint64(outer())
	want := []record.Frame{{Function: "wirelab.dev/internal/machine/symbol.outer"}}
	if got := p.Frames(pc, true); !slices.Equal(got, want) {
		t.Errorf("the first instruction of outer is named %v", got)
	}
	if got := p.Frames(pc+1, false); !slices.Equal(got, want) {
		t.Errorf("a return address behind it is named %v", got)
	}
	if got := p.Frames(1, true); got != nil {
		t.Errorf("address 1 is named %v", got)
	}
}

//go:noinline
func caller() uintptr { return inlined() }

func inlined() uintptr { return returnAddress() }

//go:noinline
func returnAddress() uintptr {
	var counters [1]uintptr
	runtime.Callers(2, counters[:])
	return counters[0]
}

// TestInlinedFunctions names a function and the one that it is inlined into.
func TestInlinedFunctions(t *testing.T) {
	p, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Frame{{Function: "wirelab.dev/internal/machine/symbol.inlined"}, {Function: "wirelab.dev/internal/machine/symbol.caller"}}
	if got := p.Frames(uint64(caller()), false); !slices.Equal(got, want) {
		t.Errorf("it is named %v, want %v", got, want)
	}
}

// TestFunctionsOfAFile reads the same from the program's file, as for any other Go program.
func TestFunctionsOfAFile(t *testing.T) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mappings, err := parseMappings(text)
	if err != nil || len(mappings) == 0 {
		t.Fatal(mappings, err)
	}
	m, pc := mappings[0], uint64(outer())
	if got := openLookup("/proc/self/exe")(pc - m.start + m.offset); !slices.Equal(got, []string{"wirelab.dev/internal/machine/symbol.outer"}) {
		t.Errorf("outer is named %v", got)
	}
	if got := openLookup("/dev/null")(0); got != nil {
		t.Errorf("a file without symbols names %v", got)
	}
}

func TestKernelFunctions(t *testing.T) {
	k, err := parseKernelSymbols(bufio.NewScanner(strings.NewReader("ffff0020 T second\nffff0010 t first\nffff0028 d data\nffff0030 T third [module]\n")))
	if err != nil {
		t.Fatal(err)
	}
	for pc, want := range map[uint64]string{0xffff000f: "", 0xffff0010: "first", 0xffff001f: "first", 0xffff0028: "second", 0xffff0031: "third"} {
		if got := k.FunctionName(pc); got != want {
			t.Errorf("%x is named %q, want %q", pc, got, want)
		}
	}
	if _, err := parseKernelSymbols(bufio.NewScanner(strings.NewReader("0000000000000000 T hidden\n"))); !errors.Is(err, host.ErrUnsupported) || !strings.Contains(err.Error(), "kptr_restrict") {
		t.Errorf("addresses that are hidden: %v", err)
	}
}

func FuzzParseMappings(f *testing.F) {
	f.Add([]byte("00400000-00500000 r-xp 00000000 fe:00 123 /usr/bin/a program (deleted)\n7f00-8000 rw-p 0 0:0 0\n"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseMappings(text) })
}

func FuzzParseKernel(f *testing.F) {
	f.Add("ffffffff81000000 T _stext [module]\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseKernelSymbols(bufio.NewScanner(strings.NewReader(text))) })
}
