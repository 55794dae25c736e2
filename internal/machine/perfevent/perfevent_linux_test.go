package perfevent

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
)

// TestFaultsAreExact counts a known number of page faults. The product takes faults from
// elsewhere; the event shows that counting is exact, including all threads.
func TestFaultsAreExact(t *testing.T) {
	const pages = 1000
	counter, err := OpenCounter(kernelEvent("page-faults", unix.PERF_COUNT_SW_PAGE_FAULTS), os.Getpid())
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = counter.Close() }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	begun := faults(t)
	before, err := counter.Read()
	if err != nil {
		t.Fatal(err)
	}
	for page := range pages {
		memory[page*os.Getpagesize()] = 1
	}
	after, err := counter.Read()
	if err != nil {
		t.Fatal(err)
	}
	// The Go runtime may touch new pages of its own meanwhile: the kernel's other count has them,
	// but for faults that it had to try again.
	most := faults(t) - begun
	if counted := int64(after.Value - before.Value); counted < pages || counted > most+most/50 {
		t.Errorf("%d faults were counted, want %d, and %d at most", counted, pages, most)
	}
	if after.RunningNS == 0 || after.RunningNS != after.EnabledNS {
		t.Errorf("it counted for %d ns of %d", after.RunningNS, after.EnabledNS)
	}
}

// faults returns this process's number of page faults, as the kernel counts them.
func faults(t *testing.T) int64 {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Minflt + usage.Majflt
}

// TestSamplesAreOurs finds this process busy, in a function of its own.
func TestSamplesAreOurs(t *testing.T) {
	began := clock.Now() // before the first sample can be
	sampler, err := StartSampler(997, runtime.NumCPU(), 0)
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var own, user int
	for own < 20 { // until enough samples have come, however busy the machine is
		time.Sleep(time.Millisecond)
		for range 1_000_000 { // some user time
			runtime.KeepAlive(own)
		}
		if err := sampler.Drain(func(s Sample) {
			if s.PID != os.Getpid() {
				return
			}
			own++
			if len(s.User) > 0 {
				user++
			}
			if now := clock.Now(); s.AtNS < began || s.AtNS > now {
				t.Errorf("a sample of %d, taken between %d and %d", s.AtNS, began, now)
			}
		}, func(Fork) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := sampler.Close(); err != nil {
		t.Fatal(err)
	}
	if user < own/2 {
		t.Errorf("of %d samples %d have frames in user space", own, user)
	}
}

func FuzzParseSample(f *testing.F) {
	body := binary.NativeEndian.AppendUint32(nil, 7)
	body = binary.NativeEndian.AppendUint32(body, 8)
	for _, word := range []uint64{12345, 4, 1<<64 - 128, 0xffffffff81000000, 1<<64 - 512, 0x401000} {
		body = binary.NativeEndian.AppendUint64(body, word)
	}
	if s, err := parseSample(body, false); err != nil || s.PID != 7 || s.AtNS != 12345 || len(s.Kernel) != 1 || len(s.User) != 1 {
		f.Fatalf("%+v, %v", s, err)
	}
	f.Add(body, false)
	f.Add(body, true)
	f.Fuzz(func(_ *testing.T, body []byte, copies bool) { _, _ = parseSample(body, copies) })
}
