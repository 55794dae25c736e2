// Command stress finds tests that fail only sometimes. It runs every test package many times: with
// and without the race detector, at GOMAXPROCS 1, 2 and 4, alone, and beside two goroutines that
// only use CPU.
//
// Tests run with -short by default: the full tests measure, and their figures are wrong on a
// busy machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(1)
	}
}

func run() error {
	var p plan
	flag.IntVar(&p.runs, "runs", 20, "how often each package runs in each combination")
	flag.StringVar(&p.packages, "pkg", "./...", "the packages, as go list takes them")
	flag.StringVar(&p.tests, "run", "", "only tests that match this regular expression")
	short := flag.String("short", "on", "on or off: whether tests run with -short")
	flag.IntVar(&p.atOnce, "at-once", runtime.NumCPU(), "how many runs of a package may go on at once")
	flag.DurationVar(&p.atMost, "for", 0, "start no run after this time, which the packages share evenly; 0: no limit")
	only := flag.String("only", "", `only combinations whose name matches this regular expression, such as "race GOMAXPROCS=1"`)
	flag.Parse()
	p.short, p.logs, p.out = *short != "off", filepath.Join("bin", "stress", time.Now().Format("20060102-150405")), os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if p.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	return p.execute(ctx)
}

// A plan holds the flags: what to run in the module of the current folder.
type plan struct {
	runs     int
	atOnce   int
	atMost   time.Duration // 0 means no limit
	packages string
	tests    string
	short    bool
	only     *regexp.Regexp
	logs     string // the folder for the output of runs that fail
	out      io.Writer
}

// A combination holds the conditions of a run.
type combination struct {
	race           bool
	procs, burners int
}

func (c combination) String() string {
	text := fmt.Sprintf("GOMAXPROCS=%d", c.procs)
	if c.race {
		text = "race " + text
	}
	if c.burners > 0 {
		text += fmt.Sprintf(" burners=%d", c.burners)
	}
	return text
}

func (p *plan) combinations() []combination {
	var chosen []combination
	for _, race := range []bool{false, true} {
		for _, procs := range []int{1, 2, 4} {
			for _, burners := range []int{0, 2} {
				if c := (combination{race, procs, burners}); p.only.MatchString(c.String()) {
					chosen = append(chosen, c)
				}
			}
		}
	}
	return chosen
}

// testPackage is a package with tests.
type testPackage struct{ path, folder string }

func (p *plan) list(ctx context.Context) ([]testPackage, error) {
	const format = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}"
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, strings.Fields(p.packages)...)...)
	command.Stderr = os.Stderr
	listed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages %s: %w", p.packages, err)
	}
	var packages []testPackage
	for line := range strings.Lines(string(listed)) {
		if path, folder, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			packages = append(packages, testPackage{path, folder})
		}
	}
	return packages, nil
}

// execute runs the plan. It returns an error if a test failed, or if the plan ended early.
func (p *plan) execute(ctx context.Context) error {
	packages, err := p.list(ctx)
	if err != nil {
		return err
	}
	combinations := p.combinations()
	if len(packages) == 0 || len(combinations) == 0 {
		return fmt.Errorf("nothing to run: found %d packages with tests (-pkg) and %d combinations (-only)", len(packages), len(combinations))
	}
	clock, found := newClock(p.atMost, len(packages)*len(combinations)), &testFailures{}
	_, _ = fmt.Fprintf(p.out, "%d packages, %d combinations, %d runs in each, %d at a time; output of runs that fail goes to %s\n", len(packages), len(combinations), p.runs, p.atOnce, p.logs)
	for i, one := range packages {
		r := runner{plan: p, pkg: one, found: found, clock: clock, label: fmt.Sprintf("%d/%d %s", i+1, len(packages), one.path)}
		if err := r.run(ctx, combinations); err != nil {
			return err
		}
	}
	found.print(p.out)
	_, _ = fmt.Fprintf(p.out, "%d of %d runs took %v; no time was left for %d of %d pairs of a package and a combination\n", found.runs, p.runs*clock.shares, time.Since(clock.began).Round(time.Second), clock.missed, clock.shares)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after %d runs", found.runs)
	case len(found.failures) > 0:
		return fmt.Errorf("tests that failed: %d; their output is in %s", len(found.failures), p.logs)
	}
	return nil
}

// keepCPUsBusy keeps n CPUs busy until stop is called. The goroutines end with the
// process in any case.
func keepCPUsBusy(n int) (stop func()) {
	var ended atomic.Bool
	before := runtime.GOMAXPROCS(runtime.NumCPU() + n)
	for range n {
		go func() {
			for !ended.Load() {
			}
		}()
	}
	return func() {
		ended.Store(true)
		runtime.GOMAXPROCS(before)
	}
}
