// Command phases runs the phases of make check and make test, one after another,
// and stops at the first that fails.
//
//	phases lint drift short bench-once full
//
// short and full are test runs: this command starts them with go test -json, prints
// the lines of a plain go test, and hides the output of passing tests.
// Every other phase is the target of the Makefile with that name. A line at least every
// ten seconds shows that the command still works. The last lines name the slowest packages,
// the reasons for skipped tests, and the failed tests.
//
// A test that failed is run again three times, alone. If it passes then, it is listed as FLAKY at
// the end and in bin/flaky.txt. The phase goes on. More than three flaky tests fail the run. With
// STRICT=1, one flaky test is enough.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed := run(ctx, &screen{out: os.Stdout}, os.Args[1:])
	stop()
	if failed {
		os.Exit(1)
	}
}

// run runs the phases. For a failed phase it prints the error last.
func run(ctx context.Context, s *screen, phases []string) (failed bool) {
	results := newResults()
	began := time.Now()
	for _, phase := range phases {
		done := s.begin(phase)
		err := runPhase(ctx, s, phase, results)
		took := done()
		if err != nil {
			s.printf("\n%s failed after %v: %v\n", phase, took, err)
			results.print(s)
			return true
		}
		s.printf("== %s passed in %v, %v in total\n", phase, took, time.Since(began).Round(time.Second))
	}
	results.print(s)
	return results.tooFlaky(os.Getenv("STRICT") == "1")
}

func runPhase(ctx context.Context, s *screen, phase string, results *results) error {
	switch phase {
	case "short":
		return runShort(ctx, s, results)
	case "full":
		return runFull(ctx, s, results)
	}
	command := exec.CommandContext(ctx, "make", "--no-print-directory", phase)
	command.Stdout, command.Stderr = s, s
	return command.Run()
}

// goTest runs go with arguments that make it print test events, and returns the tests
// that failed.
func goTest(ctx context.Context, s *screen, results *results, arguments ...string) ([]failure, error) {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Stderr = s
	// By default, each process with the race detector sleeps for a second before it exits.
	command.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=10 "+os.Getenv("GORACE"))
	events, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	failures, read := results.read(events, s)
	return failures, errors.Join(read, command.Wait())
}

// A screen prints lines. After a silence it prints the current activity.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	last  time.Time
	doing string
}

// longestSilence is the time without output after which a screen prints the current activity.
const longestSilence = 9 * time.Second

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	return s.out.Write(p)
}

func (s *screen) printf(format string, values ...any) { _, _ = fmt.Fprintf(s, format, values...) }

func (s *screen) setActivity(doing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doing = doing
}

// begin starts a phase. The function done ends the phase, and returns its duration.
func (s *screen) begin(phase string) (done func() time.Duration) {
	began, ended := time.Now(), make(chan struct{})
	s.setActivity("")
	s.printf("== %s\n", phase)
	var watching sync.WaitGroup
	watching.Go(func() {
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
			}
			s.mu.Lock()
			if time.Since(s.last) >= longestSilence {
				s.last = time.Now()
				_, _ = fmt.Fprintf(s.out, "   %s: %v%s\n", phase, time.Since(began).Round(time.Second), s.doing)
			}
			s.mu.Unlock()
		}
	})
	return func() time.Duration {
		close(ended)
		watching.Wait()
		return time.Since(began).Round(time.Second)
	}
}
