package symbol

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	if err := os.WriteFile(list, []byte("1000 10 void java.util.HashMap.get(Object, int)\n1040 8 f(x) of a file\nnonsense\n1000 20 recompiled\n0x2000 8 py::main:/a b.py\n9000 8 beyond\n20"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := read()
	for pc, want := range map[uint64]string{0x1000: "recompiled", 0x101f: "recompiled", 0x1020: "[compiled in memory]", 0x1040: "f(x) of a file", 0x2007: "py::main:/a b.py", 0x9001: "beyond"} {
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
		"/usr/lib/jvm/lib/server/libjvm.so": "-XX:+PreserveFramePointer", "/usr/bin/node": "--perf-basic-prof", "/usr/bin/python3.12": "-X perf", "/usr/bin/nginx": "",
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

// TestJavaNamesItsFunctions asks a Java machine for the list of its functions, and leaves none behind.
func TestJavaNamesItsFunctions(t *testing.T) {
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("it takes Java: ", err)
	}
	source := filepath.Join(t.TempDir(), "Busy.java")
	const code = `public class Busy {
	static long sum;
	static void compute(long n) { for (long i = 0; i < n; i++) sum = sum * 31 + i; }
	public static void main(String[] a) throws Exception {
		Thread computes = new Thread(() -> { for (;;) compute(1000000); });
		computes.setDaemon(true);
		computes.start();
		System.out.println("started");
		System.in.read();
	}
}`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	machine := exec.CommandContext(t.Context(), java, source)
	input, err1 := machine.StdinPipe()
	output, err2 := machine.StdoutPipe()
	if err := errors.Join(err1, err2, machine.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close(); _ = machine.Wait() })
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for compiled := false; !compiled; { // which the machine does when it has time
		p, err := ReadProcess(machine.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.compiledFrames(0, false); p.WhyUnnamed() != "" {
			t.Fatal(p.WhyUnnamed())
		}
		compiled = slices.ContainsFunc(p.compiled.functions, func(f compiledFunction) bool { return f.name == "Busy.compute" })
	}
	for _, left := range []string{"perf-%d.map", ".attach_pid%d"} {
		if path := filepath.Join("/tmp", fmt.Sprintf(left, machine.Process.Pid)); fileExists(path) {
			t.Errorf("%s is left behind", path)
		}
	}
}

// TestNoSignalEndsAJavaMachine: one without a handler for SIGQUIT is not asked.
func TestNoSignalEndsAJavaMachine(t *testing.T) {
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Skip("it takes the program sleep: ", err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	p, err := ReadProcess(sleeper.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p.mappings = append(p.mappings, mapping{path: "/usr/lib/jvm/libjvm.so"})
	if _, err := p.listJavaFunctions(fmt.Sprint(p.pid)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a machine without a handler: %v", err)
	}
	if err := sleeper.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it was ended: %v", err)
	}
	own := Process{pid: os.Getpid()}
	if !own.catches(syscall.SIGQUIT) || own.catches(syscall.SIGKILL) {
		t.Error("this process handles SIGQUIT, as programs in Go do, and not SIGKILL")
	}
}

func fileExists(path string) bool { _, err := os.Stat(path); return err == nil }
