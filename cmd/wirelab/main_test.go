package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
)

// TestMain makes the test's program wirelab itself, for scripts and for the
// workers that it starts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"wirelab": main, "slowly": serveSlowly, "clustered": serveClustered, "calling": serveCalls})
}

// TestScripts drives every command as a user would.
func TestScripts(t *testing.T) {
	testscript.Run(t, scripts(t, "commandline"))
}

// TestMeasuringScripts runs those that measure, one after the other: side by
// side they would be each other's noise.
func TestMeasuringScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the scripts that measure take their time")
	}
	testscript.RunT(inTurn{t}, scripts(t, "measuring"))
}

// inTurn is a test whose scripts do not run in parallel.
type inTurn struct{ *testing.T }

func (inTurn) Parallel()     {}
func (inTurn) Verbose() bool { return testing.Verbose() }

func (t inTurn) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(inTurn{t}) })
}

func scripts(t *testing.T, folder string) testscript.Params {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", folder, err)
	}
	kept, err := filepath.Abs(filepath.Join("testdata", "kept"))
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			endFleets(env)
			env.Setenv("REPOSITORY", repository)
			env.Setenv("KEPT", kept) // a run of three trials, to be read
			foreign, err := filepath.Abs("../../internal/foreign")
			env.Setenv("FOREIGN", foreign)
			return err
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "networks":
				return hasNetworks(t)
			case "docker":
				return hasDocker(t), nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			program, ok := strings.CutPrefix(name, "has:")
			if !ok {
				return false, nil
			}
			_, err := exec.LookPath(program)
			if err != nil {
				t.Logf("%s is not on this machine: the lines that need it are left out", program)
			}
			return err == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"asked":     asked,
			"atmost":    checkLines,
			"explains":  checkExplained,
			"fields":    checkFields,
			"measure":   measure,
			"powerless": powerless,
			"records":   countRecords,
			"schema":    checkSchema,
			"scraped":   scraped,
			"site":      site,
			"shop":      openShop,
		},
	}
}

// hasNetworks reports whether trials can have networks of their own here.
func hasNetworks(t *testing.T) (bool, error) {
	err := link.CheckSupport()
	if errors.Is(err, host.ErrUnsupported) {
		t.Logf("the lines that need a network are left out: %v", err)
		return false, nil
	}
	return err == nil, err
}

// hasDocker reports whether containers can be built and run here.
func hasDocker(t *testing.T) bool {
	output, err := exec.Command("docker", "info").CombinedOutput()
	if err != nil {
		t.Logf("the lines that need containers are left out: docker info: %v: %s", err, output)
	}
	return err == nil
}

// measure runs wirelab, or wirelab through taskset, and takes it for done where the
// machine was too noisy for a valid measurement: scripts look at what is printed, not at
// speeds.
func measure(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: measure SUBCOMMAND …, or measure taskset … wirelab SUBCOMMAND …")
	}
	if args[0] != "taskset" {
		args = slices.Insert(args, 0, "wirelab")
	}
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitInvalid {
		ts.Logf("the measurement is invalid on this machine now; what is checked here does not depend on it")
		return
	}
	ts.Check(err)
}

// explained holds the parts of explain --json that tests read.
type explained struct {
	Of struct {
		Passes []struct {
			Method  string
			Missing []string
		}
		Client, Server struct{ Syscalls []insight.Syscall }
	}
	Stages, CPU []insight.ExplainedFigure
	Causes      []insight.Cause
}

// checkExplained wants explain --json, on standard output, to put two thirds of the difference
// where it belongs: explains stages|cpu NAME. Waiting for a CPU is left out of it, which neighbours
// cause. explains cause KIND wants the first cause to be of a kind. What cannot be seen on this machine
// is said, and passed over.
func checkExplained(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: explains stages|cpu|cause NAME")
	}
	var printed explained
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &printed))
	if args[0] == "cause" && len(printed.CPU) == 2 && len(printed.Stages) == 1 {
		if len(printed.Causes) == 0 || string(printed.Causes[0].Kind) != args[1] {
			ts.Fatalf("the causes are %+v, want %s first", printed.Causes, args[1])
		}
		return
	}
	lists := map[string][]insight.ExplainedFigure{"stages": printed.Stages, "cpu": printed.CPU}[args[0]]
	if len(lists) == 0 {
		ts.Logf("%s cannot be told on this machine", args[0])
		return
	}
	var whole, found float64
	for _, list := range lists { // those of both ends together
		for _, part := range list.Parts {
			if strings.HasPrefix(part.Name, "wake ") || strings.HasSuffix(part.Name, ": schedule") {
				continue
			}
			whole += part.Difference()
			if part.Name == args[1] {
				found += part.Difference()
			}
		}
	}
	if share := found / whole; !(share >= 2.0/3) || whole < 1000 {
		ts.Fatalf("of a difference of %.0f µs %s has %.0f µs, want two thirds: %+v", whole, args[1], found, lists)
	}
}

// countRecords wants a run directory to hold N records: records DIR N.
func countRecords(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: records DIR N")
	}
	data, err := os.ReadFile(ts.MkAbs(filepath.Join(args[0], "records.jsonl")))
	ts.Check(err)
	if got := strings.Count(string(data), "\n"); args[1] != itoa(got) {
		ts.Fatalf("%s holds %d records, want %s", args[0], got, args[1])
	}
}

// checkLines wants at most a number of lines on the last standard output.
func checkLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: atmost LINES FILE")
	}
	most, err := strconv.Atoi(args[0])
	ts.Check(err)
	if lines := strings.Count(ts.ReadFile(args[1]), "\n"); lines > most {
		ts.Fatalf("%d lines, want at most %d", lines, most)
	}
}
