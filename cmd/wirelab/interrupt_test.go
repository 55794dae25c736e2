package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		want int
	}{
		{"--help", exitDone},
		{"list", exitDone},
		{"list grpc", exitUsage},
		{"list --settings gprc", exitUsage},
		{"compare --stack tpc", exitUsage},
		{"compare --fast", exitUsage},
		{"run no-such-thing", exitUsage},
		{"report no-such-run", exitUsage},
		{"export no-such-run --format csv", exitUsage},
		{"run --resume no-such-run", exitUsage},
		{"compare --stack tcp -o /dev/null/run", exitUsage},
		{"compare extra", exitUsage},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(strings.Fields(c.args), strings.NewReader(""), &stdout, &stderr); got != c.want {
			t.Errorf("wirelab %s: exit code %d, want %d; it said %s", c.args, got, c.want, stderr.String())
		}
	}
}

// patience bounds what must happen at last. Only a failing test comes near it.
const patience = 2 * time.Minute

// started is a wirelab that runs, and the trials that it said are done.
type started struct {
	*exec.Cmd
	stdout bytes.Buffer
	said   chan int // the number of each trial that ended, from 1
}

var trialLine = regexp.MustCompile(`^(\d+)/\d+ `)

func start(t *testing.T, args ...string) *started {
	t.Helper()
	s := &started{Cmd: exec.Command("wirelab", args...), said: make(chan int, 1000)}
	s.Cmd.Stdout = &s.stdout
	stderr, err := s.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process
		defer close(s.said)
		lines := bufio.NewScanner(io.TeeReader(stderr, testWriter{t}))
		for lines.Scan() {
			if m := trialLine.FindStringSubmatch(lines.Text()); m != nil {
				n, _ := strconv.Atoi(m[1]) // digits, by the expression
				s.said <- n
			}
		}
	}()
	return s
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

// waitFor waits until the trial of that number has ended.
func (s *started) waitFor(t *testing.T, trial int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case n, ok := <-s.said:
			if !ok {
				t.Fatalf("it ended before trial %d did", trial)
			}
			if n >= trial {
				return
			}
		case <-deadline:
			t.Fatalf("trial %d has not ended within %v", trial, patience)
		}
	}
}

func TestCtrlCKeepsAndReportsWhatWasMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs trials for some seconds (-short)")
	}
	directory := filepath.Join(t.TempDir(), "out")
	s := start(t, "compare", "--stack", "tcp", "--size", "64", "-c", "1", "-z", "100ms", "--warm-up", "20ms", "--repeat", "200", "-o", directory)
	s.waitFor(t, 2)
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range s.said { // until its output ends
	}
	err := s.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("%v, want exit code %d", err, exitInterrupted)
	}
	if !strings.Contains(s.stdout.String(), "tcp") || !strings.Contains(strings.ToLower(s.stdout.String()), "partial") {
		t.Errorf("the partial table does not say that it is one:\n%s", s.stdout.String())
	}
	page, err := os.ReadFile(filepath.Join(directory, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(bytes.ToLower(page), []byte("partial")) {
		t.Error("the report does not say that it is partial")
	}
	noWorkers(t)
}

// Killed at any instant, a run loses at most the running trial: every trial
// that was said to be done is on disk, and the run can be resumed to its end.
func TestAKillLosesAtMostTheRunningTrial(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs trials for some seconds (-short)")
	}
	directory := filepath.Join(t.TempDir(), "out")
	const trials, kills = 16, 4
	args := []string{"compare", "--stack", "tcp,rest", "--size", "64", "-c", "1", "-n", "20", "--warm-up", "0s", "--repeat", strconv.Itoa(trials / 2), "-o", directory}
	most := 0
	for range kills {
		s := start(t, args...)
		first, ok := <-s.said
		if !ok {
			t.Fatal("it ended before its first trial did")
		}
		most = max(most, first)
		time.Sleep(rand.N(400 * time.Millisecond))
		if err := s.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for n := range s.said {
			most = max(most, n)
		}
		_ = s.Wait() // it was killed, unless it had just ended
		noWorkers(t)

		run, err := record.Open(directory)
		if err != nil {
			t.Fatalf("after a kill the run cannot be read: %v", err)
		}
		kept := 0
		for _, err := range run.Records() {
			if err != nil {
				t.Fatal(err)
			}
			kept++
		}
		if kept < most {
			t.Fatalf("%d trials were said to be done, and %d are on disk", most, kept)
		}
		args = []string{"run", "--resume", directory}
		if kept == trials {
			break
		}
	}
	s := start(t, args...)
	for range s.said { // until its output ends
	}
	if err := s.Wait(); err != nil {
		var exit *exec.ExitError
		// On a noisy machine the measurement may be invalid; it is complete.
		if !errors.As(err, &exit) || exit.ExitCode() != exitInvalid {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(directory, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(data, []byte("\n")); got != trials {
		t.Errorf("%d records after resuming, want %d", got, trials)
	}
}

// noWorkers wants no worker of this test's to be alive, soon.
func noWorkers(t *testing.T) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(20 * time.Millisecond) {
		if len(orphans()) == 0 {
			return
		}
	}
	for _, pid := range orphans() {
		t.Errorf("worker %d is still there", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// orphans lists the processes of this program that are workers and whose
// parent is gone.
func orphans() []int {
	var found []int
	self, err := exec.LookPath("wirelab")
	if err != nil {
		return nil
	}
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	for _, path := range entries {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(line, []byte(self+"\x00worker")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
