package cpusamples

import (
	"bufio"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

const (
	playSubject = "WIRELAB_PLAY_SUBJECT"
	playParent  = "parent"               // value of playSubject for one whose child does the work
	more        = 800 * time.Millisecond // of CPU time in burnMore, half of it in burnLess
)

// TestMain is the subject, too, which takes CPU time in two functions when its input says so.
func TestMain(m *testing.M) {
	if os.Getenv(playSubject) == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	_, _ = os.Stdin.Read(make([]byte, 1))
	if os.Getenv(playSubject) == playParent {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), playSubject+"=1")
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		if child.Run() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// In slices of random lengths, so that no rhythm of theirs meets that of the samples.
	var slicesOfMore []time.Duration
	for left := more; left > 0; left -= slicesOfMore[len(slicesOfMore)-1] {
		slicesOfMore = append(slicesOfMore, min(left, time.Duration(1+rand.IntN(10))*time.Millisecond))
	}
	for _, slice := range slicesOfMore {
		burnMore(slice)
		burnLess(slice / 2)
	}
	_, _ = os.Stdout.WriteString("done\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

//go:noinline
func burnMore(budget time.Duration) {
	for end := threadTime() + budget; threadTime() < end; {
		mix()
	}
}

//go:noinline
func burnLess(budget time.Duration) {
	for end := threadTime() + budget; threadTime() < end; {
		mix()
	}
}

var mixed int

// mix is small enough to be inlined.
func mix() {
	for i := range 1000 {
		mixed = mixed*31 + i
	}
}

// threadTime is the thread's CPU time, for which it enters the kernel.
func threadTime() time.Duration {
	var used unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used)
	return time.Duration(used.Nano())
}

// TestSharesAreThoseOfCPUTime knows how long each function ran.
func TestSharesAreThoseOfCPUTime(t *testing.T) {
	subject := exec.CommandContext(t.Context(), os.Args[0])
	subject.Env = append(os.Environ(), playSubject+"=1")
	seen := sample(t, subject)
	stacks := seen.Stacks
	var inMore, inLess, mixing, inKernel int64
	for _, stack := range stacks.Stacks {
		functions := stacks.Functions(stack)
		has := func(name string) int {
			return slices.IndexFunc(functions, func(f record.Frame) bool {
				return strings.HasSuffix(f.Function, "/cpusamples."+name) && f.In == ""
			})
		}
		switch caller := max(has("burnMore"), has("burnLess")); {
		case caller < 0:
			continue
		case has("mix") > caller:
			mixing += stack.Count
		case functions[len(functions)-1].In == record.InKernel:
			inKernel += stack.Count
		}
		if has("burnMore") >= 0 {
			inMore += stack.Count
		} else {
			inLess += stack.Count
		}
	}
	n := float64(inMore + inLess)
	t.Logf("%s: %d samples: %d in burnMore, %d in burnLess; %d in what is inlined into them, %d in the kernel",
		seen.Method, stacks.Samples, inMore, inLess, mixing, inKernel)
	if n < 50 {
		t.Fatalf("%d stacks of %d samples have the functions: %+v", inMore+inLess, stacks.Samples, stacks)
	}
	// A share of 2/3 of n samples is off by so much less than once in a million times.
	const sigmas = 5
	if off := math.Abs(float64(inMore) - n*2/3); off > sigmas*math.Sqrt(n*2/9) {
		t.Errorf("%.3f of the samples are in burnMore, want 2/3", float64(inMore)/n)
	}
	if mixing == 0 {
		t.Error("a function that is inlined was not seen")
	}
	if inKernel == 0 && !strings.Contains(seen.Method, "user space") {
		t.Error("no stack reaches from the program into the kernel")
	}
}

// TestOtherProgramsHaveNames samples a program that is not this one, with and without frame pointers. A library's
// function is between two of its own.
func TestOtherProgramsHaveNames(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("it takes a C compiler: ", err)
	}
	folder := t.TempDir()
	source, program := filepath.Join(folder, "burn.c"), filepath.Join(folder, "burn")
	const code = `#include <stdio.h>
#include <stdlib.h>
#include <time.h>
volatile unsigned long sum;
__attribute__((noinline)) int burn_in_c(const void *a, const void *b) {
#ifdef FRAME
	__asm__ volatile("" : : "r"(__builtin_frame_address(0))); /* a function that calls none has no frame otherwise */
#endif
	for (int i = 0; i < 100000; i++) sum = sum * 31 + i;
	return a < b;
}
__attribute__((noinline)) void sort(void) {
	int both[2] = {2, 1};
	qsort(both, 2, sizeof both[0], burn_in_c);
	sum++;
}
int main(void) {
	getchar();
	while (clock() < CLOCKS_PER_SEC / 2) { sort(); sum++; }
	puts("done"); fflush(stdout);
	while (getchar() != EOF) ;
	return 0;
}
`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-O1", "-fno-omit-frame-pointer", "-DFRAME"}, {"-O2", "-fomit-frame-pointer"}} {
		if text, err := exec.CommandContext(t.Context(), compiler, append(flags, "-o", program, source)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		seen := sample(t, exec.CommandContext(t.Context(), program))
		stacks := seen.Stacks
		var named, whole, all int64
		for _, stack := range stacks.Stacks {
			functions := lists.Map(stacks.Functions(stack), func(f record.Frame) string { return f.Function })
			all += stack.Count
			if at := slices.Index(functions, "burn_in_c"); at > 0 {
				named += stack.Count
				if main, sort := slices.Index(functions, "main"), slices.Index(functions, "sort"); 0 <= main && main < sort && sort < at {
					whole += stack.Count
				}
			}
		}
		if all < 10 || named < all/2 {
			t.Errorf("%v: %d of %d samples are in a function of the program: %+v", flags, named, all, stacks)
		}
		if whole < named*9/10 && !strings.Contains(seen.Method, "user space") { // which copies no stacks
			t.Errorf("%v: %d of %d samples have all callers: %+v", flags, whole, named, stacks)
		}
	}
}

// TestAChildIsSampled watches a process that leaves its work to a child.
func TestAChildIsSampled(t *testing.T) {
	subject := exec.CommandContext(t.Context(), os.Args[0])
	subject.Env = append(os.Environ(), playSubject+"="+playParent)
	stacks := sample(t, subject).Stacks
	var named, all int64
	for _, stack := range stacks.Stacks {
		all += stack.Count
		if slices.ContainsFunc(stacks.Functions(stack), func(f record.Frame) bool { return strings.HasSuffix(f.Function, "cpusamples.burnMore") }) {
			named += stack.Count
		}
	}
	if named < 10 { // how many others there are depends on the machine: both programs start
		t.Errorf("%d of %d samples are in the child's function: %+v", named, all, stacks)
	}
}

// sample runs a program that begins when its input says so, and says when it is done.
func sample(t *testing.T, program *exec.Cmd) record.Seen {
	t.Helper()
	watch, err := Start()
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	input, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if err := watch.AddProcess(probe.Client, program.Process.Pid); err != nil {
		t.Fatal(err)
	}
	begin := clock.Now()
	if _, err := input.Write([]byte("12")); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	window := probe.Span{BeginNS: begin, EndNS: clock.Now()}
	findings, err := watch.Stop(probe.MeasuredWindow{Span: window})
	if err := errors.Join(err, input.Close(), program.Wait()); err != nil {
		t.Fatal(err)
	}
	if findings.Client.Stacks == nil {
		t.Fatalf("it saw %+v", findings.Client)
	}
	return findings.Client
}
