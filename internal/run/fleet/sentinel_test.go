package fleet

import (
	"os"
	"syscall"
	"testing"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
)

// One sentinel watches for all workers that take turns. It goes on when one of them fails before the end,
// and ends with the first one after it, or with the last one.
func TestOneSentinelWatchesTheTurns(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cpus := host.ReadTopology().Allowed[:1]
	hour := int64(3600e9)
	for name, c := range map[string]struct{ failed, ended int }{"all end": {0, 3}, "one fails": {1, 2}, "all fail": {3, 0}} {
		s := &turnsSentinel{endNS: clock.Now() + hour}
		var watches []*machineWatch
		for range c.failed + c.ended {
			w := newMachineWatch(cpus)
			if own := w.join(s); own != nil || w.join(s) != nil {
				t.Fatalf("%s: the worker had a sentinel", name)
			}
			watches = append(watches, w)
		}
		s.start([]string{program, "worker"}, host.StartOptions{CPUs: cpus}, []int{os.Getpid()})
		if len(s.pids) != 1 {
			t.Fatalf("%s: %d sentinels, want 1", name, len(s.pids))
		}
		for i, w := range watches {
			if i == c.failed {
				s.endNS = clock.Now()
			}
			seen := w.stop(0)
			isOver := i >= c.failed || i == len(watches)-1
			if runs := syscall.Kill(s.pids[0], 0) == nil; runs == isOver || isOver != (len(seen.Watched) == 1) || seen.PIDs[len(seen.PIDs)-1] != s.pids[0] {
				t.Errorf("%s: after worker %d of %d the sentinel runs: %v; it has seen %+v", name, i+1, len(watches), runs, seen.Watched)
			}
		}
	}
	none := &turnsSentinel{}
	none.start([]string{program, "worker"}, host.StartOptions{CPUs: cpus}, nil)
	if none.sentinel != nil {
		t.Error("a sentinel without users has started")
	}
}
