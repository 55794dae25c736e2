package syscalls

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/clock"
	"wirelab.dev/internal/host"
	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/record"
)

// writes are what the subject makes, besides Go's own.
const writes = 10_000

// TestMain is the subject, too: a process that makes so many writes when its input says so.
func TestMain(m *testing.M) {
	if os.Getenv("WIRELAB_SUBJECT") == "" {
		os.Exit(m.Run())
	}
	var one [1]byte
	_, _ = os.Stdin.Read(one[:])
	null, err := unix.Open("/dev/null", unix.O_WRONLY, 0)
	if err != nil {
		os.Exit(1)
	}
	for range writes {
		_, _ = unix.Write(null, one[:])
	}
	os.Exit(0)
}

// TestCensusIsExact knows how many writes a process makes.
func TestCensusIsExact(t *testing.T) {
	watch, err := StartCensus()
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	begin := clock.Now()
	watch.readings.Mark()
	subject := exec.CommandContext(t.Context(), os.Args[0])
	subject.Env = append(os.Environ(), "WIRELAB_SUBJECT=1")
	input, err := subject.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.Start(); err != nil {
		t.Fatal(err)
	}
	if err := watch.Process(probe.Client, subject.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := input.Write([]byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := subject.Wait(); err != nil {
		t.Fatal(err)
	}
	watch.readings.Mark()
	end := clock.Now()
	sight, err := watch.Stop(probe.Measured{Span: probe.Span{BeginNS: begin, EndNS: end}})
	if err != nil {
		t.Fatal(err)
	}
	if found := find(sight.Client, "write"); found.Count != writes || found.NS == nil || *found.NS < writes*50 {
		t.Errorf("the census has %+v, want %d writes of some 100 ns each; all: %+v", found, writes, sight.Client.Syscalls)
	}
	if len(sight.Server.Syscalls) > 0 {
		t.Errorf("calls of a server that there is not: %+v", sight.Server.Syscalls)
	}
}

func find(seen record.Seen, name string) record.Syscall {
	for _, call := range seen.Syscalls {
		if call.Name == name {
			return call
		}
	}
	return record.Syscall{}
}
