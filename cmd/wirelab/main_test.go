package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test's program wirelab itself, for scripts and for the
// workers that it starts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"wirelab": main})
}

// TestScripts drives every command as a user would.
func TestScripts(t *testing.T) {
	folders := []string{"commandline", "measuring"}
	if testing.Short() {
		t.Log("the scripts that measure are left out (-short)")
		folders = folders[:1]
	}
	var files []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no scripts in %s: %v", folder, err)
		}
		files = append(files, found...)
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Condition: func(name string) (bool, error) {
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
			"measure": measure,
			"records": countRecords,
			"schema":  checkSchema,
		},
	})
}

// measure runs wirelab, and takes it for done where the machine was too noisy
// for a valid measurement: scripts look at what is printed, not at speeds.
func measure(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: measure SUBCOMMAND …")
	}
	err := ts.Exec("wirelab", args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitInvalid {
		ts.Logf("the measurement is invalid on this machine now; what is checked here does not depend on it")
		return
	}
	ts.Check(err)
}

// countRecords wants a run directory to hold so many records: records DIR N.
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
