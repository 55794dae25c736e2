package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runner runs one package's tests.
type runner struct {
	plan     *plan
	pkg      testPackage
	label    string
	binaries string // the folder for test binaries
	found    *findings
	compiled map[bool]string // with and without the race detector
}

// longSilence is after how long a line tells how far the runs are.
const longSilence = 10 * time.Second

// repeat runs the tests as often as the plan says, or until ctx ends.
func (r *runner) repeat(ctx context.Context, c combination) error {
	binary, err := r.compile(ctx, c.race)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	stop := burn(c.burners)
	defer stop()
	began, failed := time.Now(), 0
	said := began
	for run := 1; run <= r.plan.runs; run++ {
		output, err := r.once(ctx, binary, c)
		if ctx.Err() != nil {
			return nil
		}
		r.found.runs++
		if err != nil {
			failed++
			if err := r.keep(c, run, output); err != nil {
				return err
			}
		}
		if time.Since(said) > longSilence && run < r.plan.runs {
			_, _ = fmt.Fprintf(r.plan.out, "%s: %v: %d of %d runs, %d failed\n", r.label, c, run, r.plan.runs, failed)
			said = time.Now()
		}
	}
	_, _ = fmt.Fprintf(r.plan.out, "%s: %v: %d runs in %v, %d failed\n", r.label, c, r.plan.runs, time.Since(began).Round(time.Second/10), failed)
	return nil
}

// compile makes the test binary, once.
func (r *runner) compile(ctx context.Context, race bool) (string, error) {
	if binary, done := r.compiled[race]; done {
		return binary, nil
	}
	binary := filepath.Join(r.binaries, "race-"+strconv.FormatBool(race)+".test")
	output, err := exec.CommandContext(ctx, "go", "test", "-c", "-race="+strconv.FormatBool(race), "-o", binary, r.pkg.path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w\n%s", r.pkg.path, err, output)
	}
	if r.compiled == nil {
		r.compiled = map[bool]string{}
	}
	r.compiled[race] = binary
	return binary, nil
}

// remove deletes the binaries: a whole tree's would fill a disk.
func (r *runner) remove() {
	for _, binary := range r.compiled {
		_ = os.Remove(binary)
	}
}

// once runs the tests in a process group of their own, so that what they start
// ends with them.
func (r *runner) once(ctx context.Context, binary string, c combination) (output string, err error) {
	command := exec.CommandContext(ctx, binary, "-test.short="+strconv.FormatBool(r.plan.short), "-test.run="+r.plan.tests, "-test.timeout=10m", "-test.paniconexit0")
	command.Dir = r.pkg.folder
	command.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(c.procs))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	combined, err := command.CombinedOutput()
	return string(combined), err
}

// keep writes the output of a failed run to a file and counts what failed.
func (r *runner) keep(c combination, run int, output string) error {
	name := strings.NewReplacer("/", "-", " ", "-", "=", "").Replace(fmt.Sprintf("%s %v run%02d.log", r.pkg.path, c, run))
	log := filepath.Join(r.plan.logs, name)
	if err := os.MkdirAll(r.plan.logs, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(log, []byte(output), 0o666); err != nil {
		return err
	}
	for _, f := range failedTests(output) {
		f.pkg, f.log = r.pkg.path, log
		r.found.add(f, c, r.plan.runs)
	}
	return nil
}
