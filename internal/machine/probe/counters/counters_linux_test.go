package counters

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
)

// TestMigrationsAreExact moves a thread between two CPUs, and counts in both ways.
func TestMigrationsAreExact(t *testing.T) {
	const moves = 200
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) < 2 {
		t.Skip("one CPU: nothing migrates")
	}
	scheduler := countMigrations(os.Getpid())
	if scheduler == nil {
		t.Log("the scheduler does not tell: it takes a kernel with CONFIG_SCHED_DEBUG")
	}
	events, err := probe.CountEvents(os.Getpid(), []perfevent.Event{perfevent.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	begin := clock.Now()
	mark := func() {
		if scheduler != nil {
			scheduler.readings.ReadNow()
		}
		events.ReadNow()
	}
	mark()
	if err := host.OnDisposableThread(func() error {
		for i := range moves {
			var one unix.CPUSet
			one.Set(cpus[i%2])
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				return err
			}
		}
		mark()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	window := probe.Span{BeginNS: begin, EndNS: clock.Now()}
	// The kernel moves the Go runtime's other threads as it likes; the first move may be none.
	const others = 150
	if scheduler != nil {
		if count, err := scheduler.stop(window); err != nil || count < moves-1 || count > moves+others {
			t.Errorf("the scheduler has %v migrations, %v; want %d", count, err, moves)
		}
	}
	counts, err := events.Stop(window)
	switch {
	case err != nil:
		t.Fatal(err)
	case len(counts) == 0:
		t.Skip(events.Missing)
	case counts[0].Count < moves-1 || counts[0].Count > moves+others:
		t.Errorf("the event has %+v, want %d", counts[0], moves)
	}
}

// TestWhatIsMissingHasAReason: every event is either counted or missing.
func TestWhatIsMissingHasAReason(t *testing.T) {
	watch, err := Start()
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.AddProcess(probe.Server, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	begin := clock.Now()
	for range 1_000_000 {
		runtime.KeepAlive(begin)
	}
	findings, err := watch.Stop(probe.MeasuredWindow{Span: probe.Span{BeginNS: begin, EndNS: clock.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", findings.Server)
	if len(findings.Server.Counters) < len(countedEvents) && len(findings.Server.Missing) == 0 || findings.Server.Method == "" {
		t.Errorf("it has %+v", findings.Server)
	}
}

func TestTheSchedulersCountIsRead(t *testing.T) {
	text := []byte("program (1, #threads: 1)\nse.nr_migrations                             :                   12\n")
	if count, known := probe.NumberAfterLabel(text, migrationsLabel); !known || count != 12 {
		t.Errorf("%d, %v: want 12", count, known)
	}
}
