//go:build unix

package record

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// writerDir names the run that the test binary, started by TestKill, writes
// until it is killed.
const writerDir = "WIRELAB_TEST_WRITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeForever(dir, os.Stdout))
		return
	}
	m.Run()
}

// writeForever appends records and says, behind each, that it is on disk.
func writeForever(dir string, acknowledge io.Writer) error {
	r, err := Resume(dir)
	if err != nil {
		return err
	}
	for trial := 0; ; trial++ {
		if r.Done(trial) {
			continue
		}
		record := sample(trial)
		// A long line takes the kernel a while to copy, so that some
		// kills find it half copied.
		if trial%6 == 5 {
			record.Failure = strings.Repeat("x", 512<<10)
		}
		if err := r.Append(record); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(acknowledge, trial); err != nil {
			return err
		}
	}
}

// Killed at any instant, a run has lost no record that was appended, reads
// without damage, and goes on.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := 20
	if testing.Short() {
		kills = 3
	}
	w := begin(t, 0)
	w.Manifest.Order = nil // the writer goes on for as long as it lives
	finish(t, w)
	random := rand.New(rand.NewPCG(1, 0))
	acknowledged, torn := []int{}, 0
	for range kills {
		acknowledged = append(acknowledged, writeAndKill(t, w.Dir, time.Duration(random.IntN(10_000))*time.Microsecond)...)
		r, err := Open(w.Dir)
		if err != nil {
			t.Fatal(err)
		}
		torn += len(r.Warnings)
		found := trials(t, r)
		for _, trial := range acknowledged {
			if !slices.Contains(found, trial) {
				t.Fatalf("trial %d was appended, and is lost; found %v", trial, found)
			}
		}
		// What was on disk but not yet acknowledged may be there too.
		acknowledged = found
	}
	t.Logf("%d kills, %d records, %d half-written lines", kills, len(acknowledged), torn)
	if len(acknowledged) < kills {
		t.Errorf("only %d records in %d kills: they came too early to show anything", len(acknowledged), kills)
	}
	r, err := Resume(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, r)
}

// writeAndKill starts a writer, lets it append one record, kills it some time
// later, and returns the trials that it said are on disk.
func writeAndKill(t *testing.T, dir string, after time.Duration) []int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), writerDir+"="+dir)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged []int
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if len(acknowledged) == 0 {
			kill := time.AfterFunc(after, func() { _ = command.Process.Kill() })
			defer kill.Stop()
		}
		trial, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Errorf("the writer says %q", lines.Text())
		}
		acknowledged = append(acknowledged, trial)
	}
	if err := command.Wait(); err == nil || command.ProcessState.ExitCode() != -1 {
		t.Fatalf("the writer ended by itself: %v", err)
	}
	return acknowledged
}
