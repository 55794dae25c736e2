package probe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

func TestOfProcessSeesAnotherProcess(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=server")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	read := func(step string) Usage {
		t.Helper()
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), step) {
			t.Fatalf("the child said %q, want %q", lines.Text(), step)
		}
		usage, err := ReadProcess(child.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return usage
	}
	before := read("ready")
	if _, err := io.WriteString(input, "work\n"); err != nil {
		t.Fatal(err)
	}
	after := read("done <nil>")
	usage := after.Since(before)
	// The child touches memory besides, which takes system time.
	if usage.CPU() < burnt || usage.CPU() > burnt+200*time.Millisecond {
		t.Errorf("processor time %v, want %v and that of %d faults", usage.CPU(), burnt, pageCount)
	}
	within(t, "faults", float64(usage.MinorFaults), pageCount, 0.1)
	within(t, "resident memory", float64(after.MaxRSSBytes-before.MaxRSSBytes), touched, 0.15)
	if usage.AtNS <= before.AtNS || usage.Go != (GoUsage{}) {
		t.Errorf("at %d after %d, Go's view %+v", usage.AtNS, before.AtNS, usage.Go)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProcess(child.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its end: %v, want none such", err)
	}
}

func TestOfProcessAgreesWithSelf(t *testing.T) {
	burn(20 * time.Millisecond)
	inside := self(t)
	outside, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	within(t, "processor time", float64(outside.CPU()), float64(inside.CPU()), 0.1)
	within(t, "faults", float64(outside.MinorFaults), float64(inside.MinorFaults), 0.1)
	within(t, "peak memory", float64(outside.MaxRSSBytes), float64(inside.MaxRSSBytes), 0.1)
	if outside.SystemNS%int64(10*time.Millisecond) != 0 || outside.UserNS <= 0 {
		t.Errorf("user %d ns, system %d ns; want system in whole ticks", outside.UserNS, outside.SystemNS)
	}
}

func TestReadProcess(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	proc := fstest.MapFS{
		"7/stat":          file("7 (odd ) (name) S 1 7 7 0 -1 4194560 1234 0 5 0 42 17 0 0 20 0 4 0 100 1 1\n"),
		"7/status":        file("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t2\n"),
		"7/task/7/status": file("Name:\tx\nvoluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t3\n"),
		"7/task/8/status": file("Name:\tx\nvoluntary_ctxt_switches:\t20\nnonvoluntary_ctxt_switches:\t4\n"),
		"7/task/9/comm":   file("ended between listing and reading"),
		"8/stat":          file("8 (short) S 1 2\n"),
		"5/stat":          file("5 (no memory) Z 1 5 5 0 -1 4194560 1 0 0 0 1 1\n"),
		"5/status":        file("Name:\tx\n"),
		"5/task/5/status": file("Name:\tx\nodd:\n"),
		"9/stat":          file("9 (odd) S 1 9 9 0 -1 4194560 1234 0 five 0 42 17\n"),
	}
	got, err := readProcessFiles(proc, 7)
	want := Usage{
		UserNS: 420_000_000, SystemNS: 170_000_000, MinorFaults: 1234, MajorFaults: 5,
		RSSBytes: 1 << 20, MaxRSSBytes: 2 << 20, Threads: 2, VoluntarySwitches: 30, InvoluntarySwitches: 7,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, pid := range []int{5, 6, 8, 9} {
		if usage, err := readProcessFiles(proc, pid); err == nil {
			t.Errorf("process %d: %+v, want an error", pid, usage)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("7 (odd ) (name) S 1 7 7 0 -1 4194560 1234 0 5 0 42 17 0 0 20")
	f.Fuzz(func(t *testing.T, stat string) {
		if usage, err := parseStat(stat); err != nil && usage != (Usage{}) {
			t.Errorf("both %+v and %v", usage, err)
		}
	})
}

func FuzzStatusFigure(f *testing.F) {
	f.Add([]byte("Name:\tx\nVmHWM:\t    2048 kB\n"))
	f.Fuzz(func(t *testing.T, status []byte) {
		if figure, found := NumberAfterLabel(status, "\nVmHWM"); figure < 0 || !found && bytes.Contains(status, []byte("\nVmHWM: 1 ")) {
			t.Errorf("%d, %v of %q", figure, found, status)
		}
	})
}

func BenchmarkOfProcess(b *testing.B) {
	for _, threads := range []int{0, 50} {
		b.Run(fmt.Sprintf("extra_threads=%d", threads), func(b *testing.B) {
			release := make(chan struct{})
			var parked sync.WaitGroup
			for range threads {
				parked.Go(func() {
					runtime.LockOSThread()
					<-release
				})
			}
			for b.Loop() {
				if _, err := ReadProcess(os.Getpid()); err != nil {
					b.Fatal(err)
				}
			}
			close(release)
			parked.Wait()
		})
	}
}
