package latency

import (
	"math"
	"math/bits"
	"time"
)

// Course counts durations by the time at which they ended, to give quantiles over time. Like a
// [Recorder], it belongs to one goroutine. It has at most 64 time slots. When all slots are used,
// each slot becomes twice as long, so a Course needs only 48 KiB, outside the Go heap. Each bucket
// spans an eighth of a power of two, so quantiles are accurate to 7 %.
type Course struct {
	memory[uint32] // one group of buckets per slot
	failed         [courseSlots]uint32
	began          int64
	shift          uint // a slot is 1<<shift ns
}

const (
	courseSlots  = 64
	shortestSlot = 23 // 8.4 ms

	lowestOctave  = 12 // one bucket counts all durations below 4 µs
	highestOctave = 36 // one bucket counts all durations from 69 s on
	courseBuckets = (highestOctave-lowestOctave)<<3 + 2
)

// NewCourse returns an empty course.
func NewCourse() *Course {
	return &Course{memory: allocateOffHeap[uint32](courseSlots*courseBuckets, false), shift: shortestSlot}
}

// Begin sets the instant at which the first slot begins. Call it before the first Record. It makes
// the slots long enough for the expected duration, because lengthening them later takes some 10 µs.
func (c *Course) Begin(instant int64, expected time.Duration) {
	c.began = instant
	for c.Slot()*courseSlots < expected {
		c.shift++
	}
}

// Record counts a duration that ended at an instant. An instant before Begin counts in slot 0.
func (c *Course) Record(ended, ns int64) {
	c.counts[c.slotAt(ended)*courseBuckets+courseBucket(ns)]++
}

// RecordFailure counts a failed call that ended at an instant. It does not count a duration.
func (c *Course) RecordFailure(ended int64) { c.failed[c.slotAt(ended)]++ }

func (c *Course) slotAt(ended int64) int {
	slot := max(0, ended-c.began) >> c.shift
	for slot >= courseSlots {
		c.doubleSlotLength()
		slot >>= 1
	}
	return int(slot)
}

func courseBucket(ns int64) int {
	octave := bits.Len64(uint64(max(0, ns))) - 1
	switch {
	case octave < lowestOctave:
		return 0
	case octave >= highestOctave:
		return courseBuckets - 1
	}
	return 1 + (octave-lowestOctave)<<3 + int(ns>>(octave-3))&7
}

// middleOfBucket returns the middle of a bucket. Durations in the bucket differ from the middle by
// at most 7 %.
func middleOfBucket(bucket int) int64 {
	if bucket == 0 {
		return 1 << (lowestOctave - 1)
	}
	octave, eighth := (bucket-1)>>3+lowestOctave, int64(bucket-1)&7
	return (2*(8+eighth) + 1) << (octave - 4)
}

func (c *Course) doubleSlotLength() {
	for slot := range courseSlots {
		from := c.slot(slot)
		if slot > 0 { // the first slot keeps its place
			into := c.slot(slot / 2)
			if slot%2 == 0 {
				clear(into)
			}
			for i, n := range from {
				into[i] += n
			}
			c.failed[slot/2] += c.failed[slot]
			c.failed[slot] = 0
		}
	}
	clear(c.counts[courseSlots/2*courseBuckets:])
	c.shift++
}

func (c *Course) slot(n int) []uint32 { return c.counts[n*courseBuckets : (n+1)*courseBuckets] }

// Add adds the counts of another course that begins at the same instant. Recording must have ended.
func (c *Course) Add(other *Course) {
	for c.shift < other.shift {
		c.doubleSlotLength()
	}
	for n := range courseSlots {
		c.failed[n>>(c.shift-other.shift)] += other.failed[n]
		into := c.slot(n >> (c.shift - other.shift))
		for i, count := range other.slot(n) {
			into[i] += count
		}
	}
}

// Slot returns the length of a slot.
func (c *Course) Slot() time.Duration { return 1 << c.shift }

// Slots returns the number of slots up to the last one with a count.
func (c *Course) Slots() int {
	for n := courseSlots; n > 0; n-- {
		if c.Count(n-1) > 0 {
			return n
		}
	}
	return 0
}

// Count returns the number of durations that ended in a slot.
func (c *Course) Count(slot int) (total int64) {
	for _, n := range c.slot(slot) {
		total += int64(n)
	}
	return total
}

// Failed returns the number of failures in a slot.
func (c *Course) Failed(slot int) int64 { return int64(c.failed[slot]) }

// Quantile returns a quantile of the durations that ended in a slot, or 0 if there are none.
func (c *Course) Quantile(slot int, q float64) time.Duration {
	left := int64(math.Ceil(q * float64(c.Count(slot))))
	for bucket, n := range c.slot(slot) {
		if left -= int64(n); left <= 0 && n > 0 {
			return time.Duration(middleOfBucket(bucket))
		}
	}
	return 0
}
