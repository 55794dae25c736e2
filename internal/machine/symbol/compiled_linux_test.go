package symbol

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
)

// TestCompiledFunctions names code that a process says it has compiled.
func TestCompiledFunctions(t *testing.T) {
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	pid := sleeper.Process.Pid
	list := fmt.Sprintf("/tmp/perf-%d.map", pid)
	read := func() *Process {
		t.Helper()
		p, err := ReadProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		p.mappings = append([]mapping{{start: 0x1000, end: 0x3000}}, p.mappings...)
		return p
	}
	unnamed := []record.Frame{{Function: "[compiled in memory]"}}
	if p := read(); !slices.Equal(p.Frames(0x1008, true), unnamed) || !strings.Contains(p.WhyUnnamed(), list) {
		t.Errorf("without a list: %v, %q", p.Frames(0x1008, true), p.WhyUnnamed())
	}
	t.Cleanup(func() { _ = os.Remove(list) })
	if err := os.WriteFile(list, []byte("1000 10 java.util.HashMap.get(Object)\nnonsense\n1000 20 recompiled\n0x2000 8 py::main:/a b.py\n9000 8 beyond\n20"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := read()
	for pc, want := range map[uint64]string{0x1000: "recompiled", 0x101f: "recompiled", 0x1020: "[compiled in memory]", 0x2007: "py::main:/a b.py", 0x9001: "beyond"} {
		if got := p.Frames(pc, true); !slices.Equal(got, []record.Frame{{Function: want}}) {
			t.Errorf("%x is named %v, want %s", pc, got, want)
		}
	}
	if got := p.Frames(0x9008, true); got != nil || p.WhyUnnamed() != "" {
		t.Errorf("an address of nothing is named %v; %q", got, p.WhyUnnamed())
	}
	// A link and a file of another user are not read.
	if err := os.Rename(list, list+".real"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(list + ".real") })
	if err := os.Symlink(list+".real", list); err != nil {
		t.Fatal(err)
	}
	if got := read().Frames(0x1000, true); !slices.Equal(got, unnamed) {
		t.Errorf("through a link: %v", got)
	}
	if err := os.Rename(list+".real", list); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(list, 65534, 65534); err != nil {
		t.Logf("a file of another user is not tried: %v", err)
		return
	}
	if got := read().Frames(0x1000, true); !slices.Equal(got, unnamed) {
		t.Errorf("of another user: %v", got)
	}
}

// TestVirtualMachinesSayHowToNameFunctions by the files that they map.
func TestVirtualMachinesSayHowToNameFunctions(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/lib/jvm/lib/server/libjvm.so": "jcmd PID Compiler.perfmap", "/usr/bin/node": "--perf-basic-prof", "/usr/bin/python3.12": "-X perf", "/usr/bin/nginx": "",
	} {
		p := &Process{pid: 7, mappings: []mapping{{path: path}}}
		if why := p.WhyUnnamed(); !strings.Contains(why, want) || (want == "") != (why == "") {
			t.Errorf("%s: %q", path, why)
		}
	}
}

func FuzzParseCompiled(f *testing.F) {
	f.Add("1000 10 java.util.HashMap.get\nnonsense\nffffffffffffffff ffffffffffffffff end\n", uint64(0x1008))
	f.Fuzz(func(_ *testing.T, text string, at uint64) {
		c := compiledCode{functions: parseCompiled(strings.NewReader(text))}
		_ = c.name(at)
	})
}
