package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestNowNeverGoesBackwards(t *testing.T) {
	previous := Now()
	for range 100_000 {
		now := Now()
		if now < previous {
			t.Fatalf("Now went from %d back to %d", previous, now)
		}
		previous = now
	}
}

func TestUntilIsNeverEarly(t *testing.T) {
	for _, wait := range []time.Duration{-time.Second, 0, 1, 700, 20 * time.Microsecond, time.Millisecond, 4 * time.Millisecond} {
		start := Now()
		instant := start + int64(wait)
		Until(instant)
		if now := Now(); now < instant {
			t.Errorf("Until returned %v before an instant %v away", time.Duration(instant-now), wait)
		}
	}
}

func TestUntilDoesNotSpinAfterTheInstant(t *testing.T) {
	if spun := Until(Now() - int64(time.Hour)); spun != 0 {
		t.Errorf("Until spun for %v to reach the past", spun)
	}
}

func TestUntilSleepsWhileTheInstantIsFar(t *testing.T) {
	const wait = 40 * time.Millisecond
	shortest := wait
	for i := 0; i < 100 && shortest > sleepMargin; i++ { // whoever loses its CPU spins past the instant
		shortest = min(shortest, Until(Now()+int64(wait)))
	}
	if shortest > sleepMargin {
		t.Errorf("waiting %v spun for %v, more than the margin of %v", wait, shortest, sleepMargin)
	}
}

// In a bubble only sleeping moves the clock, and sleeps end exactly: Until must
// neither hang nor be late.
func TestUntilInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{1, time.Microsecond, time.Millisecond, time.Minute} {
			instant := Now() + int64(wait)
			if spun := Until(instant); spun != 0 {
				t.Errorf("fake time of %v cost %v of CPU", wait, spun)
			}
			if late := Now() - instant; late != 0 {
				t.Errorf("late by %v of fake time after %v", time.Duration(late), wait)
			}
		}
	})
}
