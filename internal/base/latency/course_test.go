package latency

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Calls of 100 µs become calls of 3 ms half-way through, and once everything stands still
// for 100 ms.
func TestCourseShowsWhenCallsBecameSlow(t *testing.T) {
	const began = int64(7e9)
	c := NewCourse()
	defer c.Close()
	c.Begin(began, 0)
	for at := 100 * time.Microsecond; at < 2*time.Second; {
		took := 100 * time.Microsecond
		if at > time.Second {
			took = 3 * time.Millisecond
		}
		if at > 500*time.Millisecond && at < 501*time.Millisecond {
			took = 100 * time.Millisecond
		}
		at += took
		c.Record(began+int64(at), int64(took))
	}
	if c.Slot() != 1<<25 || c.Slots() != 60 {
		t.Fatalf("%d slots of %v", c.Slots(), c.Slot())
	}
	for slot := range c.Slots() {
		var want time.Duration
		switch begins, ends := time.Duration(slot)*c.Slot(), time.Duration(slot+1)*c.Slot(); {
		case ends < 500*time.Millisecond || begins > 602*time.Millisecond && ends < time.Second:
			want = 100 * time.Microsecond
		case begins > 502*time.Millisecond && ends < 600*time.Millisecond:
			if n := c.Count(slot); n > 0 {
				t.Errorf("slot %d: %d calls ended while all stood still", slot, n)
			}
			continue
		case begins > 1003*time.Millisecond:
			want = 3 * time.Millisecond
		default:
			continue // an edge
		}
		if got := c.Quantile(slot, 0.99); math.Abs(float64(got-want)) > 0.07*float64(want) {
			t.Errorf("slot %d: P99 %v, want %v", slot, got, want)
		}
	}
}

// However courses are merged, nothing is lost, and quantiles are within 7 % of those of all
// samples.
func TestCoursesMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	whole := NewCourse()
	defer whole.Close()
	var merged *Course
	total := int64(0)
	for _, length := range []time.Duration{300 * time.Millisecond, 40 * time.Second, 5 * time.Second} {
		one := NewCourse()
		defer one.Close()
		for range 20_000 {
			at, took := random.Int64N(int64(length)), int64(math.Exp(8+10*random.Float64()))
			one.Record(at, took)
			whole.Record(at, took)
			total++
		}
		if merged == nil {
			merged = one
		} else {
			merged.Add(one)
		}
	}
	if merged.Slot() != whole.Slot() || merged.Slots() != whole.Slots() {
		t.Fatalf("%d slots of %v, want %d of %v", merged.Slots(), merged.Slot(), whole.Slots(), whole.Slot())
	}
	var counted int64
	for slot := range merged.Slots() {
		counted += merged.Count(slot)
		if merged.Count(slot) != whole.Count(slot) || merged.Quantile(slot, 0.99) != whole.Quantile(slot, 0.99) {
			t.Errorf("slot %d: %d calls, want %d", slot, merged.Count(slot), whole.Count(slot))
		}
	}
	if counted != total {
		t.Errorf("%d of %d calls", counted, total)
	}
}

func TestCourseBucketsHoldTheirMiddle(t *testing.T) {
	for ns := int64(1 << lowestOctave); ns < 1<<highestOctave; ns += max(1, ns/50) {
		bucket := courseBucket(ns)
		if middle := middleOfBucket(bucket); courseBucket(middle) != bucket || math.Abs(float64(middle-ns)) > 0.07*float64(ns) {
			t.Fatalf("%d ns is in bucket %d, whose middle is %d", ns, bucket, middle)
		}
	}
	for ns, want := range map[int64]int{-1: 0, 0: 0, 4095: 0, 1 << 36: courseBuckets - 1, math.MaxInt64: courseBuckets - 1} {
		if got := courseBucket(ns); got != want {
			t.Errorf("%d ns is in bucket %d, want %d", ns, got, want)
		}
	}
}

// What counting in a course costs a call, beside its recorder.
func BenchmarkCourse(b *testing.B) {
	c := NewCourse()
	defer c.Close()
	for i := range int64(b.N) {
		c.Record(i<<14, 100_000+i&0xffff)
	}
}

// What was expected to last so long keeps its slots.
func TestCourseOfAnExpectedLength(t *testing.T) {
	c := NewCourse()
	defer c.Close()
	c.Begin(0, 4*time.Second)
	first := c.Slot()
	c.Record(int64(4*time.Second)-1, int64(time.Millisecond))
	if c.Slot() != first || first > 8*time.Second/courseSlots {
		t.Errorf("slots of %v, then of %v", first, c.Slot())
	}
}

// Failures stay with the calls that they are of when slots become longer and when courses merge.
func TestCourseKeepsFailures(t *testing.T) {
	const began = int64(3e9)
	var all *Course
	for range 2 {
		c := NewCourse()
		defer c.Close()
		c.Begin(began, 0)
		for at := time.Duration(0); at < 3*time.Second; at += time.Millisecond {
			ended := began + int64(at)
			c.Record(ended, int64(time.Millisecond))
			if at >= time.Second && at < 2*time.Second { // an outage
				c.RecordFailure(ended)
			}
		}
		if all == nil {
			all = c
		} else {
			all.Add(c)
		}
	}
	total := int64(0)
	for slot := range all.Slots() {
		failed := all.Failed(slot)
		total += failed
		begins, ends := time.Duration(slot)*all.Slot(), time.Duration(slot+1)*all.Slot()
		switch {
		case ends <= time.Second || begins >= 2*time.Second:
			if failed > 0 {
				t.Errorf("%d failures from %v to %v, outside of the outage", failed, begins, ends)
			}
		case begins >= time.Second && ends <= 2*time.Second:
			if failed != all.Count(slot) {
				t.Errorf("%d of %d calls from %v to %v failed, within the outage", failed, all.Count(slot), begins, ends)
			}
		}
	}
	if total != 2000 {
		t.Errorf("%d failures, want 2000", total)
	}
}
