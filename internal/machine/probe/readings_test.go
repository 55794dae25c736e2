package probe

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
)

// TestReadingsCutTheWindowOut grows a counter steadily, for longer than all readings are
// kept, and marks a burst exactly.
func TestReadingsCutTheWindowOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := clock.Now()
		burst := uint64(0)
		readings := StartReadings(2, time.Millisecond, func(into []uint64) error {
			into[0] = uint64(clock.Now() - began) // 1 a nanosecond
			into[1] = burst
			return nil
		})
		time.Sleep(3*time.Second + 300*time.Microsecond)
		window := Span{BeginNS: began + int64(time.Second), EndNS: began + int64(2*time.Second)}
		readings.ReadNow()
		before := clock.Now()
		burst = 10_000
		readings.ReadNow()
		after := clock.Now() + 1
		time.Sleep(time.Second)
		readings.Stop()
		grown, err := readings.Between(window)
		if err != nil {
			t.Fatal(err)
		}
		if off := grown[0] - float64(time.Second); off < -1000 || off > 1000 {
			t.Errorf("in a second the counter grew by %v", grown[0])
		}
		if grown[1] != 0 {
			t.Errorf("a burst behind the window is in it: %v", grown[1])
		}
		if grown, err = readings.Between(Span{BeginNS: before, EndNS: after}); err != nil || grown[1] != 10_000 {
			t.Errorf("around the burst the counter grew by %v, %v", grown, err)
		}
		if _, err := readings.Between(Span{BeginNS: began - 1, EndNS: began}); err == nil {
			t.Error("a window that began before the readings was cut out of them")
		}
	})
}

// TestALoadAloneHasAllGrowth: a short load between two readings has all that they differ by if nothing else ran.
func TestALoadAloneHasAllGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Uint64
		readings := StartReadings(1, 10*time.Millisecond, func(into []uint64) error {
			into[0] = calls.Load()
			return nil
		})
		time.Sleep(25 * time.Millisecond)
		window := Span{BeginNS: clock.Now()}
		calls.Store(100)
		time.Sleep(time.Millisecond)
		window.EndNS = clock.Now()
		time.Sleep(25 * time.Millisecond)
		readings.Stop()
		for alone, want := range map[bool]float64{false: 10, true: 100} {
			window.Alone = alone
			if grown, err := readings.Between(window); err != nil || grown[0] != want {
				t.Errorf("alone %v: the counter grew by %v, %v, want %v", alone, grown, err, want)
			}
		}
	})
}
