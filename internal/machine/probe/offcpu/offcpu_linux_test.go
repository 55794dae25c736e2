package offcpu

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

const (
	playSleeper = "WIRELAB_PLAY_SLEEPER"
	sleeps      = 500
	each        = time.Millisecond
)

// TestMain is the sleeper, too: a process that waits when its input says so.
func TestMain(m *testing.M) {
	play := os.Getenv(playSleeper)
	if play == "" {
		os.Exit(m.Run())
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	if play == playGoroutines {
		waitInGoroutines()
	} else {
		runtime.LockOSThread()
		for range sleeps {
			sleepOnce()
		}
	}
	_, _ = os.Stdout.WriteString("done\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

//go:noinline
func sleepOnce() {
	for left := unix.NsecToTimespec(int64(each)); unix.Nanosleep(&left, &left) != nil; {
		runtime.KeepAlive(left) // a signal came
	}
}

// watchSleeper returns what the probe sees of the sleeper.
func watchSleeper(t *testing.T, play string) probe.Findings {
	t.Helper()
	sleeper := exec.CommandContext(t.Context(), os.Args[0])
	sleeper.Env = append(os.Environ(), playSleeper+"="+play)
	return watchProcess(t, sleeper)
}

// watchProcess returns what the probe sees of a process, from its first byte of input to its first line of output.
func watchProcess(t *testing.T, sleeper *exec.Cmd) probe.Findings {
	t.Helper()
	watch, err := Start()
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	input, err := sleeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := sleeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if err := watch.AddProcess(probe.Server, sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	begin := clock.Now()
	if _, err := input.Write([]byte("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	findings, err := watch.Stop(probe.MeasuredWindow{Span: probe.Span{BeginNS: begin, EndNS: clock.Now()}})
	if err := errors.Join(err, input.Close(), sleeper.Wait()); err != nil {
		t.Fatal(err)
	}
	if stacks := findings.Server.Stacks; stacks == nil || stacks.Lost > 0 {
		t.Fatalf("it saw %+v", findings.Server)
	}
	return findings
}

// TestEverySleepIsSeen knows how often and how long a function sleeps.
func TestEverySleepIsSeen(t *testing.T) {
	findings := watchSleeper(t, "1")
	stacks := findings.Server.Stacks
	var count, slept int64
	for _, stack := range stacks.Stacks {
		functions := stacks.Functions(stack)
		inKernel := slices.ContainsFunc(functions, func(f record.Frame) bool {
			return f.In == record.InKernel && (strings.Contains(f.Function, "nanosleep") || len(findings.Server.Missing) > 0)
		})
		if inKernel && slices.ContainsFunc(functions, func(f record.Frame) bool { return strings.HasSuffix(f.Function, "/offcpu.sleepOnce") }) {
			count, slept = count+stack.Count, slept+stack.Weight
		}
	}
	t.Logf("%d sleeps of %v", count, time.Duration(slept))
	// A sleep may be seen twice, if others get the CPU before it has begun or when it ends; and
	// not at all, if the machine was not served until it was over.
	const least = sleeps - sleeps/10
	if count < least || slept < int64(least*each) {
		t.Errorf("sleepOnce was off the CPU %d times for %v, want %d times for %v at least", count, time.Duration(slept), least, least*each)
	}
	if count > sleeps+sleeps/5 {
		t.Errorf("sleepOnce was off the CPU %d times, want %d", count, sleeps)
	}
}
