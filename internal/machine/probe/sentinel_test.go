package probe

import (
	"slices"
	"testing"
	"time"
)

// woken lets a sentinel wake up so late each time, while our processes ran so long.
func woken(of SentinelCPU, late []time.Duration, own func(i int) time.Duration) SentinelResult {
	s := sentinel{of: of}
	at := int64(0)
	for i, late := range late {
		due := at + int64(2*time.Millisecond)
		at = due + int64(late)
		s.recordWakeUp(wakeUp{dueNS: due, ranNS: at, own: own(i)})
	}
	return s.watched
}

func always(own time.Duration) func(int) time.Duration { return func(int) time.Duration { return own } }

func TestASentinelTellsOthersFromOurs(t *testing.T) {
	const timer, turn, burst = 25 * time.Microsecond, 3 * time.Millisecond, 20 * time.Millisecond
	late := []time.Duration{timer, timer + 40*time.Microsecond, timer + burst, timer + turn, timer}
	for name, c := range map[string]struct {
		cpus int
		own  func(int) time.Duration
		want []time.Duration
	}{
		"an idle process, all was others'":        {1, always(0), []time.Duration{burst, turn}},
		"a process that ran while it slept":       {1, always(2 * time.Millisecond), []time.Duration{burst - 2*time.Millisecond, turn - 2*time.Millisecond}},
		"a process that had the CPU all the time": {1, func(i int) time.Duration { return 2*time.Millisecond + late[i] }, nil},
		"a turn of our own":                       {1, func(i int) time.Duration { return min(late[i], turn+timer) }, []time.Duration{burst - turn - timer}},
		// It ran for 8 ms on four CPUs: not for more than 10 ms before us on this.
		"a process on four CPUs": {4, always(8 * time.Millisecond), []time.Duration{burst - 8*time.Millisecond}},
		"a busy process on ten":  {10, always(200 * time.Millisecond), []time.Duration{burst - 10*time.Millisecond}},
	} {
		seen := woken(SentinelCPU{CPUs: c.cpus}, late, c.own)
		var got []time.Duration
		for _, gap := range seen.Gaps {
			got = append(got, time.Duration(gap.TookNS))
		}
		if !slices.Equal(got, c.want) || seen.Wakings != int64(len(late)) {
			t.Errorf("%s: gaps %v in %d wakings, want %v in %d", name, got, seen.Wakings, c.want, len(late))
		}
	}
}

// Any number of gaps takes the same memory, and the longest are never lost.
func TestASentinelKeepsTheLongestGaps(t *testing.T) {
	late := make([]time.Duration, 10*maxGaps)
	for i := range late {
		late[i] = time.Millisecond + time.Duration(i%977)*time.Microsecond
	}
	late[0], late[3], late[len(late)-1] = 0, time.Second, 2*time.Second
	seen := woken(SentinelCPU{CPUs: 1}, late, always(0))
	if len(seen.Gaps) > maxGaps || len(seen.Gaps) < maxGaps/4 {
		t.Errorf("%d gaps are kept, want up to %d", len(seen.Gaps), maxGaps)
	}
	for _, want := range []time.Duration{time.Second, 2 * time.Second} {
		if !slices.ContainsFunc(seen.Gaps, func(g Gap) bool { return g.TookNS == int64(want) }) {
			t.Errorf("a gap of %v is lost", want)
		}
	}
	if !slices.IsSortedFunc(seen.Gaps, func(a, b Gap) int { return int(a.AtNS - b.AtNS) }) {
		t.Error("the gaps are not in order of time")
	}
}

// Gaps of one length fill the list too.
func TestASentinelOfOneLengthOfGap(t *testing.T) {
	late := slices.Repeat([]time.Duration{time.Millisecond}, 3*maxGaps)
	late[0] = 0
	if seen := woken(SentinelCPU{CPUs: 1}, late, always(0)); len(seen.Gaps) > maxGaps {
		t.Errorf("%d gaps are kept", len(seen.Gaps))
	}
}
