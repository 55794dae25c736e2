package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs one package's tests.
type runner struct {
	plan     *plan
	pkg      testPackage
	label    string
	binaries string // the folder for test binaries
	found    *testFailures
	clock    *clock
}

// progressInterval is the time after which a line reports the progress of the runs.
const progressInterval = 10 * time.Second

// run runs the tests in each combination. Then it deletes the test binaries, because the binaries
// of all packages would fill a disk.
func (r *runner) run(ctx context.Context, combinations []combination) (err error) {
	if r.binaries, err = os.MkdirTemp("", "stress"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.binaries) }()
	for _, c := range combinations {
		if err := r.repeat(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// repeat runs the tests as often as the plan says, or until ctx or the time ends.
// It starts at least one run, unless no time is left.
func (r *runner) repeat(ctx context.Context, c combination) error {
	if ctx.Err() != nil {
		return nil
	}
	if r.clock.isOver() {
		r.clock.done++
		r.clock.missed++
		return nil
	}
	binary, err := r.compile(ctx, c.race)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer keepCPUsBusy(c.burners)()
	t := tally{until: r.clock.endOfShare(), said: time.Now()}
	began := t.said
	var all sync.WaitGroup
	for range r.plan.atOnce {
		all.Go(func() {
			for run, more := t.next(ctx, r.plan.runs); more; run, more = t.next(ctx, r.plan.runs) {
				output, failure := r.runOnce(ctx, binary, c)
				if ctx.Err() != nil {
					return // the process was killed, so its result means nothing
				}
				r.count(&t, c, run, output, failure)
			}
		})
	}
	all.Wait()
	r.found.endCombination(c, t.ended)
	r.clock.done++
	if ctx.Err() == nil && t.err == nil {
		r.printf("%v: %d runs in %v, %d failed", c, t.ended, time.Since(began).Round(time.Second/10), t.failed)
	}
	return t.err
}

// tally counts the runs of a package in a combination.
type tally struct {
	mu                   sync.Mutex
	begun, ended, failed int
	until, said          time.Time
	err                  error // error in writing results; nil if there was none
}

// next returns the number of the run that the caller must start. more is false if no run is left.
func (t *tally) next(ctx context.Context, runs int) (run int, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil || t.err != nil || t.begun == runs || t.begun > 0 && time.Now().After(t.until) {
		return 0, false
	}
	t.begun++
	return t.begun, true
}

func (r *runner) count(t *tally, c combination, run int, output string, failure error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended++
	r.found.runs++
	if failure != nil {
		t.failed++
		t.err = errors.Join(t.err, r.saveOutput(c, run, output))
	}
	if time.Since(t.said) > progressInterval && t.ended < r.plan.runs {
		t.said = time.Now()
		r.printf("%v: %d of %d runs, %d failed", c, t.ended, r.plan.runs, t.failed)
	}
}

func (r *runner) printf(format string, values ...any) {
	_, _ = fmt.Fprintf(r.plan.out, "%s: %s; %s\n", r.label, fmt.Sprintf(format, values...), r.clock.describeProgress())
}

// compile makes the test binary at its first call.
func (r *runner) compile(ctx context.Context, race bool) (string, error) {
	binary := filepath.Join(r.binaries, "race-"+strconv.FormatBool(race)+".test")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	output, err := exec.CommandContext(ctx, "go", "test", "-c", "-race="+strconv.FormatBool(race), "-ldflags=-s -w", "-o", binary, r.pkg.path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w\n%s", r.pkg.path, err, output)
	}
	return binary, nil
}

// runOnce runs the tests in a process group of their own, so that the processes that they start
// end with them.
func (r *runner) runOnce(ctx context.Context, binary string, c combination) (output string, err error) {
	command := exec.CommandContext(ctx, binary, "-test.short="+strconv.FormatBool(r.plan.short), "-test.run="+r.plan.tests, "-test.timeout=10m", "-test.paniconexit0")
	command.Dir = r.pkg.folder
	command.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(c.procs), "GORACE=atexit_sleep_ms=10 "+os.Getenv("GORACE")) // 1 s by default
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	combined, err := command.CombinedOutput()
	return string(combined), err
}

// saveOutput writes the output of a failed run to a file, and counts the failed tests.
func (r *runner) saveOutput(c combination, run int, output string) error {
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
		r.found.add(f)
	}
	return nil
}

// A clock divides the time between the packages in their combinations. Time that a package
// does not need goes to the packages after it.
type clock struct {
	began, ends  time.Time
	shares, done int
	missed       int // number of shares that had no run, because no time was left
}

// noTimeLimit is more time than any run takes.
const noTimeLimit = 100 * 365 * 24 * time.Hour

func newClock(atMost time.Duration, shares int) *clock {
	if atMost == 0 {
		atMost = noTimeLimit
	}
	now := time.Now()
	return &clock{began: now, ends: now.Add(atMost), shares: shares}
}

// endOfShare returns the end of the next package's time in a combination. No run starts later.
func (c *clock) endOfShare() (until time.Time) {
	now := time.Now()
	return now.Add(c.ends.Sub(now) / time.Duration(c.shares-c.done))
}

func (c *clock) isOver() bool { return time.Now().After(c.ends) }

func (c *clock) describeProgress() string {
	if c.done == 0 {
		return "0 % done"
	}
	passed := time.Since(c.began)
	rest := passed / time.Duration(c.done) * time.Duration(c.shares-c.done)
	rest = min(rest, max(0, time.Until(c.ends)))
	return fmt.Sprintf("%d %% done, about %v left", 100*c.done/c.shares, rest.Round(time.Minute))
}
