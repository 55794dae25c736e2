package catalog

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/probe/probetest"
)

// TestMain is also a process with other rights, which tries all probes on itself.
func TestMain(m *testing.M) {
	if os.Getenv(playUser) == "" {
		os.Exit(m.Run())
	}
	if os.Getpid() == 1 { // in a namespace of processes, whose /proc is still the outer one's
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			println("mount a /proc:", err.Error())
			os.Exit(1)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(tryAll()); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

const playUser = "WIRELAB_PLAY_USER"

// tried holds the results of a probe that watched its own process.
type tried struct {
	Coverage probe.Coverage
	Refused  string // why it sees nothing at all
	Broken   string // an error that is no refusal
	Findings probe.Findings
	// Parent says what is missing of the parent process, which belongs to another user for some.
	Parent string
}

func tryAll() map[string]tried {
	all := map[string]tried{}
	for _, name := range record.Probes {
		var one tried
		var err error
		if one.Coverage, err = Coverage(name); errors.Is(err, host.ErrUnsupported) {
			one.Refused = err.Error()
		} else if err == nil && RunsOutsideWorker(name) {
			one.Findings, err = trySelf(name)
			if errors.Is(err, ErrOnlyInWorker) {
				err = nil
			}
		}
		if err == nil && one.Refused == "" && startFunctions[name] != nil {
			one.Parent, err = tryWithParent(name)
		}
		if err != nil && one.Refused == "" {
			one.Broken = err.Error()
		}
		all[name] = one
	}
	return all
}

// trySelf makes system calls, and takes CPU time until a sample or two must have come.
func trySelf(name string) (findings probe.Findings, err error) {
	watch, err := Start(name)
	if err != nil {
		return findings, err
	}
	err = watch.AddProcess(probe.Server, os.Getpid())
	begin := clock.Now()
	for sum, start := 0, ownTime(); ownTime() < start+cpuTimeEach; {
		_ = unix.Getppid()
		for i := range 100_000 {
			sum = sum*31 + i
		}
	}
	findings, stopErr := watch.Stop(probe.MeasuredWindow{
		Span:  probe.Span{BeginNS: begin, EndNS: clock.Now()},
		Calls: [][2]int64{{begin, 100}}, Handled: [][2]int64{{begin + 10, 20}},
	})
	return findings, errors.Join(err, stopErr)
}

// tryWithParent watches the parent process, too. Where that is refused, the own process is still seen.
func tryWithParent(name string) (missing string, err error) {
	watch, err := Start(name)
	if errors.Is(err, ErrOnlyInWorker) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	refused := watch.AddProcess(probe.Server, os.Getppid())
	err = watch.AddProcess(probe.Client, os.Getpid())
	begin := clock.Now()
	findings, stopErr := watch.Stop(probe.MeasuredWindow{Span: probe.Span{BeginNS: begin, EndNS: clock.Now(), Alone: true}})
	if refused != nil {
		findings.Server.Missing = append(findings.Server.Missing, refused.Error())
	}
	return strings.Join(findings.Server.Missing, "; "), errors.Join(err, stopErr)
}

// cpuTimeEach is the CPU time in ns that each probe sees: some samples at 99 per second.
const cpuTimeEach = 150e6

func ownTime() int64 {
	var used unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used)
	return used.Nano()
}

const nobody = 65534

// TestEveryoneSeesSomething tries the probes with the rights of all kinds of users.
func TestEveryoneSeesSomething(t *testing.T) {
	users := []struct {
		name       string
		start      func(*exec.Cmd) error
		privileged bool
	}{
		{"as it is", (*exec.Cmd).Start, os.Geteuid() == 0},
		{"an ordinary user", func(c *exec.Cmd) error {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			return c.Start()
		}, false},
		{"root of a user namespace", func(c *exec.Cmd) error {
			c.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			return c.Start()
		}, false},
		{"root without capabilities", probetest.StartWithoutCapabilities, false},
		{"without perf events", probetest.StartWithoutPerfEvents, os.Geteuid() == 0},
	}
	for _, user := range users {
		t.Run(user.name, func(t *testing.T) {
			all := tryAs(t, user.start)
			for name, one := range all {
				if name == record.ProbeSyscalls && user.name == "an ordinary user" && os.Geteuid() == 0 && !strings.Contains(one.Parent, "/io: permission denied; run as root") {
					t.Errorf("the calls of another user's process are counted, or missing without a reason: %q", one.Parent)
				}
				t.Logf("%s: %s; missing: %s; refused: %s", name, one.Coverage.Method, strings.Join(one.Coverage.Missing, "; "), one.Refused)
				check(t, name, one)
			}
			for _, always := range []string{record.ProbeCPU, record.ProbeLife, record.ProbeAllocations} {
				if all[always].Refused != "" {
					t.Errorf("%s is refused: %s", always, all[always].Refused)
				}
			}
			if !user.privileged && os.Geteuid() == 0 && all[record.ProbeOffCPU].Refused == "" {
				t.Error("waiting stacks are seen without the right to: has the process it?")
			}
		})
	}
}

// check checks the results of a probe, with or without rights.
func check(t *testing.T, name string, one tried) {
	if one.Broken != "" {
		t.Errorf("%s: %s", name, one.Broken)
	}
	for _, text := range append(one.Coverage.Missing, one.Refused) {
		if text != "" && !strings.Contains(text, "; ") && !strings.Contains(text, "kernel.kptr_restrict") {
			t.Errorf("%s is missing without a cure: %s", name, text)
		}
	}
	seen := one.Findings.Server
	for _, counter := range seen.Counters {
		if counter.Name == "task-clock" && counter.Count < cpuTimeEach/2 {
			t.Errorf("%s: the clock is at %v ns", name, counter.Count)
		}
	}
	if strings.HasPrefix(one.Coverage.Method, "perf events") && name == record.ProbeCPU && (seen.Stacks == nil || seen.Stacks.Samples < 3) {
		t.Errorf("the CPU's stacks are %+v", seen.Stacks)
	}
	if strings.HasPrefix(one.Coverage.Method, "BPF") && name == record.ProbeSyscalls && len(seen.Syscalls) == 0 {
		t.Error("no system calls")
	}
	if name == record.ProbeLife && (one.Findings.Life == nil || len(one.Findings.Life.Stages) == 0) {
		t.Errorf("of a call's life it has %+v", one.Findings.Life)
	}
}

// tryAs runs this program's other self.
func tryAs(t *testing.T, start func(*exec.Cmd) error) (all map[string]tried) {
	t.Helper()
	// Its folder is closed to other users, but an open file is not.
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	user := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	user.ExtraFiles = []*os.File{program}
	user.Env = append(os.Environ(), playUser+"=1")
	user.Dir = "/"
	var words strings.Builder
	user.Stderr = &words
	output, err := user.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(user); errors.Is(err, os.ErrPermission) || errors.Is(err, unix.ENOSPC) {
		t.Skip("such a process may not be started here: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(json.NewDecoder(output).Decode(&all), user.Wait()); err != nil {
		if strings.HasPrefix(words.String(), "mount a /proc") {
			t.Skip(words.String())
		}
		t.Fatal(err, words.String())
	}
	return all
}
