package symbol

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"wirelab.dev/internal/machine/host"
)

// TestFunctionsOfGoPrograms finds functions of programs with and without symbols, at fixed addresses and not.
func TestFunctionsOfGoPrograms(t *testing.T) {
	folder := t.TempDir()
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(1) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"plain": nil, "stripped": {"-ldflags=-s -w"}, "position-independent": {"-buildmode=pie", "-ldflags=-s -w"},
	} {
		program := filepath.Join(folder, name)
		build := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", program}, flags...), source)...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		found, err := FindGoFunctions(program, "runtime.gopark", "main.main")
		if err != nil || len(found) != 2 {
			t.Errorf("%s: %v, %v", name, found, err)
			continue
		}
		lookup := openLookup(program)
		for function, offset := range found {
			if got := lookup(offset); !slices.Equal(got, []string{function}) {
				t.Errorf("%s: %s is at %#x, where %q is", name, function, offset, got)
			}
		}
		if _, err := FindGoFunctions(program, "runtime.thereIsNone"); !errors.Is(err, host.ErrUnsupported) {
			t.Errorf("%s: a function that there is not: %v", name, err)
		}
	}
	if found, err := FindGoFunctions("/bin/sh", "runtime.gopark"); found != nil || err != nil {
		t.Errorf("a shell has the functions %v, %v", found, err)
	}
}

func TestStackChecks(t *testing.T) {
	for _, c := range []struct {
		code string
		want int
	}{
		{"\x49\x3b\x66\x10\x76\x81\x55\x48\x89\xe5", 6},
		{"\x49\x3b\x66\x10\x0f\x86\xdc\x00\xff\x00\x55\x48", 10},
		{"\x4c\x8d\x64\x24\xc8\x4d\x3b\x66\x10\x76\x20\x55", 11},
		{"\x4c\x8d\xa4\x24\x10\xff\xff\xff\x4d\x3b\x66\x10\x0f\x86\x01\x02\x00\x00\x55", 18},
		{"\x49\x3b\x66\x10\x76\x81\x48\x89\xe5\x55", 0}, // no frame pointer
		{"\x55\x48\x89\xe5", 0},
		{"", 0},
	} {
		if got := stackCheckBytes(elf.EM_X86_64, []byte(c.code)); got != c.want {
			t.Errorf("%x: %d bytes, want %d", c.code, got, c.want)
		}
		if got := stackCheckBytes(elf.EM_AARCH64, []byte(c.code)); got != 0 {
			t.Errorf("%x on another processor: %d bytes", c.code, got)
		}
	}
}

// FuzzFindGoFunctions: a service's file may be anything.
func FuzzFindGoFunctions(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = FindGoFunctions(path, "runtime.gopark")
	})
}
