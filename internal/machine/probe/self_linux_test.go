package probe

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVariable makes this test binary play a foreign server.
const roleVariable = "WIRELAB_PROBE_TEST_ROLE"

const (
	burnt     = 200 * time.Millisecond
	touched   = 64 << 20
	pageSize  = 4096
	pageCount = touched / pageSize
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		m.Run() // whose result ends the process when TestMain returns
	case "peak":
		usage, err := ReadSelf()
		fmt.Fprintln(os.Stdout, usage.MaxRSSBytes, err)
	case "server":
		serve()
	case "touch":
		touchAndSleep()
	}
}

// serve works once it is told to, and ends when it is told to.
func serve() {
	fmt.Fprintln(os.Stdout, "ready")
	input := bufio.NewReader(os.Stdin)
	_, _ = input.ReadString('\n')
	work := make(chan error)
	go func() { // on a thread that has ended when the work is looked at
		runtime.LockOSThread()
		burn(burnt)
		_, err := touch()
		work <- err
	}()
	fmt.Fprintln(os.Stdout, "done", <-work)
	_, _ = input.ReadString('\n')
}

// burn uses the given processor time, however long that takes.
func burn(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var start, now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &start) // cannot fail for this clock
	for now = start; now.Nano()-start.Nano() < int64(d); {
		for range 50_000 { // some 15 µs, so that the clock's system time is small
		}
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	}
}

// touch maps 64 MiB of small pages and writes to each of them once.
func touch() ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, touched, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // refused only where there are no huge pages
	for page := range pageCount {
		memory[page*pageSize] = 1
	}
	return memory, nil
}

func self(t *testing.T) Usage {
	t.Helper()
	usage, err := ReadSelf()
	if err != nil {
		t.Fatal(err)
	}
	return usage
}

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %v, want %v within %v %%", what, got, want, 100*share)
	}
}

func TestSelfSeesProcessorTime(t *testing.T) {
	before := self(t)
	burn(burnt)
	usage := self(t).Since(before)
	within(t, "processor time", usage.CPU().Seconds(), burnt.Seconds(), 0.1)

	// The kernel splits the sum by timer ticks, so it is the judge of the parts.
	var earlier, later unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &earlier); err != nil {
		t.Fatal(err)
	}
	now := self(t)
	if err := unix.Getrusage(unix.RUSAGE_SELF, &later); err != nil {
		t.Fatal(err)
	}
	if now.UserNS < earlier.Utime.Nano() || now.UserNS > later.Utime.Nano() || now.SystemNS < earlier.Stime.Nano() || now.SystemNS > later.Stime.Nano() {
		t.Errorf("%d ns of user and %d ns of system time, between the kernel's %v and %v", now.UserNS, now.SystemNS, earlier, later)
	}
}

func TestSelfSeesMemory(t *testing.T) {
	// Earlier tests had their own peak; 5 forgets it (proc_pid_clear_refs(5)).
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	before := self(t)
	memory, err := touch()
	if err != nil {
		t.Fatal(err)
	}
	after := self(t)
	if err := unix.Munmap(memory); err != nil {
		t.Fatal(err)
	}
	freed := self(t)
	within(t, "memory held", float64(after.RSSBytes-before.RSSBytes), touched, 0.1)
	within(t, "memory given back", float64(after.RSSBytes-freed.RSSBytes), touched, 0.1)
	// The kernel counts pages a CPU at a time and adds them up roughly.
	within(t, "peak after giving back", float64(freed.MaxRSSBytes), float64(after.MaxRSSBytes), 0.02)
	within(t, "faults", float64(after.Since(before).MinorFaults), pageCount, 0.1)
	within(t, "resident memory", float64(after.MaxRSSBytes-before.MaxRSSBytes), touched, 0.1)
}

// A worker is forked by a controller that may be larger than itself.
func TestSelfForgetsItsParentsPeak(t *testing.T) {
	memory, err := touch()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }() // the test is over either way
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=peak")
	said, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	var peak int64
	if _, err := fmt.Sscanf(string(said), "%d <nil>", &peak); err != nil {
		t.Fatalf("the child said %q: %v", said, err)
	}
	if peak < 1<<20 || peak >= touched {
		t.Errorf("a small child of a process with %d bytes reports %d", touched, peak)
	}
}

func TestSelfSeesSwitches(t *testing.T) {
	const sleeps = 100
	before := self(t)
	for range sleeps {
		pause := unix.NsecToTimespec(int64(50 * time.Microsecond))
		if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
	if got := self(t).Since(before).VoluntarySwitches; got < sleeps || got > 5*sleeps {
		t.Errorf("%d voluntary switches for %d sleeps", got, sleeps)
	}

	// Two threads that both want the one CPU must be made to share it.
	var allowed, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	before = self(t)
	var rivals sync.WaitGroup
	for range 2 {
		rivals.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends pinned
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Errorf("pin: %v", err)
			}
			burn(60 * time.Millisecond)
		})
	}
	rivals.Wait()
	if got := self(t).Since(before).InvoluntarySwitches; got < 5 {
		t.Errorf("%d involuntary switches of two rivals", got)
	}
}

func TestSelfSeesTheRuntime(t *testing.T) {
	const objects, objectBytes, parked = 1000, 1 << 16, 20
	runtime.GC() // starts the collector's own goroutines
	before := self(t)
	kept := make([][]byte, objects)
	for i := range kept {
		kept[i] = make([]byte, objectBytes)
	}
	release := make(chan struct{})
	var waiting sync.WaitGroup
	for range parked {
		waiting.Go(func() { <-release })
	}
	runtime.GC()
	after := self(t)
	close(release)
	waiting.Wait()
	usage := after.Since(before)
	within(t, "allocated bytes", float64(usage.Go.AllocatedBytes), objects*objectBytes, 0.1)
	if usage.Go.AllocatedObjects < objects {
		t.Errorf("%d objects allocated, want %d and more", usage.Go.AllocatedObjects, objects)
	}
	if usage.Go.HeapLiveBytes < objects*objectBytes {
		t.Errorf("%d bytes live, want %d and more", usage.Go.HeapLiveBytes, objects*objectBytes)
	}
	if got := after.Go.Goroutines - before.Go.Goroutines; got != parked {
		t.Errorf("%d goroutines more, want %d", got, parked)
	}
	if usage.Go.GCCycles < 1 || usage.Go.GCNS <= 0 {
		t.Errorf("%d collections took %d ns, want some", usage.Go.GCCycles, usage.Go.GCNS)
	}
	runtime.KeepAlive(kept)
}

// With one processor, whoever is ready waits for the one that burns.
func TestSelfSeesGoroutinesWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const wait = 5 * time.Millisecond // less than a goroutine's turn of 10 ms
	before := self(t)
	var ready sync.WaitGroup
	for range 200 { // the runtime times one in eight
		ready.Go(func() {})
	}
	start := time.Now()
	for time.Since(start) < wait {
	}
	ready.Wait()
	usage := self(t).Since(before)
	if median, ok := usage.Go.RunWait.Quantile(0.5); !ok || median < 3*time.Millisecond {
		t.Errorf("median wait %v of %d, want %v, or more where others have the CPU", median, usage.Go.RunWait.Total(), wait)
	}
}

func TestSelfDoesNotAllocate(t *testing.T) {
	if allocations := testing.AllocsPerRun(100, func() {
		if _, err := ReadSelf(); err != nil {
			t.Fatal(err)
		}
	}); allocations != 0 {
		t.Errorf("%v allocations a reading, want 0", allocations)
	}
}

func TestSelfSeesThreads(t *testing.T) {
	const parked = 20
	before := self(t)
	if before.Threads < 1 {
		t.Fatalf("%d threads", before.Threads)
	}
	var ready, ended sync.WaitGroup
	release := make(chan struct{})
	ready.Add(parked)
	for range parked {
		ended.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with it
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	during := self(t)
	close(release)
	ended.Wait()
	// Some of them may have been idle threads before.
	if during.Threads < parked+1 {
		t.Errorf("%d threads with %d goroutines that each hold one, %d before", during.Threads, parked, before.Threads)
	}
}

func TestSelfSeesSockets(t *testing.T) {
	const sockets, files = 300, 40
	readings := func() int64 { // this many readings include a recount
		var last int64
		for range readingsPerRecount {
			last = self(t).Sockets
		}
		return last
	}
	before := self(t).Sockets
	var pairs [][2]int
	for range sockets / 2 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair)
	}
	if got := self(t).Sockets - before; got != sockets {
		if info, err := os.Stat("/proc/self/fd"); err == nil && info.Size() == 0 {
			t.Skip("this kernel is older than 6.2 and does not tell how many descriptors are open")
		}
		t.Errorf("%d sockets more, want %d", got, sockets)
	}
	var opened []*os.File
	for range files {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, file)
	}
	if got := readings() - before; got != sockets {
		t.Errorf("%d sockets more with %d files beside them, want %d", got, files, sockets)
	}
	for _, file := range opened {
		_ = file.Close()
	}
	for _, pair := range pairs {
		_, _ = unix.Close(pair[0]), unix.Close(pair[1])
	}
	if got := readings(); got != before {
		t.Errorf("%d sockets in the end, %d at first", got, before)
	}
}

// The cost of a reading is that of the sampler: one each DefaultSamplingPeriod.
func BenchmarkSelf(b *testing.B) {
	for _, sockets := range []int{0, 1000} {
		b.Run(fmt.Sprintf("sockets=%d", sockets), func(b *testing.B) {
			for range sockets / 2 {
				pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadSelf(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecount(b *testing.B) {
	for range 500 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
	}
	for b.Loop() {
		countNonSockets(1000)
	}
}
