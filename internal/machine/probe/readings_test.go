package probe

import (
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
		// A load that ran alone, for a moment between two readings, has all of the growth.
		if grown, err = readings.Between(Span{BeginNS: before, EndNS: before, Alone: true}); err != nil || grown[1] != 10_000 {
			t.Errorf("of a load that ran alone the counter grew by %v, %v", grown, err)
		}
		if _, err := readings.Between(Span{BeginNS: began - 1, EndNS: began}); err == nil {
			t.Error("a window that began before the readings was cut out of them")
		}
	})
}
