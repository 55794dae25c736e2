package crowd

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
)

const (
	// minInterval is the shortest length of a merged interval.
	minInterval = 5 * time.Millisecond
	// maxIntervals bounds the number of intervals in a merged result.
	maxIntervals = 240
	// maxStretches bounds the number of stretches in a course.
	maxStretches = 64
)

// mergeIntervals counts the calls of all parts per interval of one common time grid. It assumes
// that the calls of a part's interval ended evenly over that interval.
func (m *merger) mergeIntervals() []record.Interval {
	var courses []cumulativeCounts
	for _, p := range m.clients {
		if len(p.Intervals) > 0 {
			courses = append(courses, accumulate(p.Intervals, p.BeginNS-m.result.BeginNS))
		}
	}
	if len(courses) == 0 {
		return nil
	}
	first, last := courses[0].firstInstant(), courses[0].lastInstant()
	for _, c := range courses {
		first, last = min(first, c.firstInstant()), max(last, c.lastInstant())
	}
	step := int64(minInterval)
	for (last-first)/step+2 > maxIntervals {
		step *= 2
	}
	var merged []record.Interval
	var before record.Interval // the sums over all earlier intervals
	for from := first; from < last; {
		to := min(last, from-modulo(from, step)+step)
		var all record.Interval
		for _, c := range courses {
			upTo := c.countsAt(to)
			all.Requests += upTo.Requests
			all.SumNS += upTo.SumNS
		}
		merged = append(merged, record.Interval{
			StartNS: from, TookNS: to - from, Requests: all.Requests - before.Requests, SumNS: all.SumNS - before.SumNS,
		})
		from, before = to, all
	}
	return merged
}

// modulo returns the remainder of a/step. Unlike a%step, it is never below 0.
func modulo(a, step int64) int64 { return (a%step + step) % step }

// cumulativeCounts holds the sums of all counts up to the end of each interval.
type cumulativeCounts struct {
	ends   []int64
	counts []record.Interval // only Requests and SumNS are set
}

func accumulate(intervals []record.Interval, moved int64) cumulativeCounts {
	c := cumulativeCounts{ends: []int64{intervals[0].StartNS + moved}, counts: []record.Interval{{}}}
	var all record.Interval
	for _, i := range intervals {
		all.Requests += i.Requests
		all.SumNS += i.SumNS
		c.ends, c.counts = append(c.ends, i.StartNS+i.TookNS+moved), append(c.counts, all)
	}
	return c
}

func (c cumulativeCounts) firstInstant() int64 { return c.ends[0] }
func (c cumulativeCounts) lastInstant() int64  { return c.ends[len(c.ends)-1] }

// countsAt returns the counts up to an instant. Between two ends it interpolates linearly.
func (c cumulativeCounts) countsAt(instant int64) record.Interval {
	after, _ := slices.BinarySearch(c.ends, instant)
	switch {
	case after == 0:
		return c.counts[0]
	case after == len(c.ends):
		return c.counts[after-1]
	}
	from, to := c.counts[after-1], c.counts[after]
	share := float64(instant-c.ends[after-1]) / float64(max(1, c.ends[after]-c.ends[after-1]))
	return record.Interval{
		Requests: from.Requests + int64(share*float64(to.Requests-from.Requests)),
		SumNS:    from.SumNS + int64(share*float64(to.SumNS-from.SumNS)),
	}
}

// mergeCourse computes the course from the interval events, if every part has interval events. The
// quantiles of the course cover the calls of all parts, with two significant digits.
func (m *merger) mergeCourse(events [][]worker.Interval) error {
	if len(events) != len(m.parts) || slices.ContainsFunc(events, func(e []worker.Interval) bool { return len(e) == 0 }) {
		return nil
	}
	first, last, each := events[0][0].StartNS, int64(0), int64(1)
	for part, of := range events {
		for _, e := range of {
			if e.TookNS < 0 || e.Ended < 0 || e.Failed < 0 || areFarApart(e.StartNS, m.result.BeginNS) || areFarApart(e.TookNS, 0) {
				return fmt.Errorf("%s reported an impossible interval: begin %d ns, length %d ns, %d calls, %d failures; the window begins at %d ns", m.parts[part].Agent, e.StartNS, e.TookNS, e.Ended, e.Failed, m.result.BeginNS)
			}
			first, last, each = min(first, e.StartNS), max(last, e.StartNS+e.TookNS), max(each, e.TookNS)
		}
	}
	for (last-first)/each+1 > maxStretches {
		each *= 2
	}
	stretches := map[int64]*timeSlot{}
	count := int64(0)
	for part, of := range events {
		for _, e := range of {
			at := slotAt(e, first, each)
			count = max(count, at+1)
			if stretches[at] == nil {
				stretches[at] = newSlot()
			}
			if err := stretches[at].add(e); err != nil {
				return fmt.Errorf("read the histogram of an interval of %s: %w", m.parts[part].Agent, err)
			}
		}
	}
	course := &record.Course{BeginNS: first - m.result.BeginNS, StretchNS: each}
	for at := range count {
		addStretch(course, cmp.Or(stretches[at], newSlot()), m.result.Response != nil)
	}
	m.result.Course = course
	return nil
}

// addStretch adds a slot to a course. If differ is true, service times differ from response times;
// the P99 of service times is then unknown, because a slot holds only response times.
func addStretch(to *record.Course, s *timeSlot, differ bool) {
	quantile := func(q float64, least int64) *int64 {
		if s.times.Count() < least {
			return nil
		}
		return new(int64(s.times.Quantile(q)))
	}
	to.Calls, to.Failed = append(to.Calls, s.ended), append(to.Failed, s.failed)
	to.ResponseP50NS = append(to.ResponseP50NS, quantile(0.5, record.CourseMedianCalls))
	to.ResponseP99NS = append(to.ResponseP99NS, quantile(0.99, record.CourseCalls))
	to.ResponseMaxNS = append(to.ResponseMaxNS, quantile(1, 1))
	p99 := quantile(0.99, record.CourseCalls)
	if differ {
		p99 = nil
	}
	to.P99NS = append(to.P99NS, p99)
}

type timeSlot struct {
	ended, failed int64
	tookNS        int64                    // the length of the longest interval in the slot
	times         *latency.CoarseHistogram // response times
}

func newSlot() *timeSlot { return &timeSlot{times: latency.NewCoarseHistogram()} }

// slotAt returns the number of the slot that contains the middle of an interval. All slots have the
// same length, and slot 0 begins at first.
func slotAt(i worker.Interval, first, length int64) int64 {
	return (i.StartNS + i.TookNS/2 - first) / length
}

// add adds an interval to the slot. It changes nothing if it cannot read the interval's histogram.
func (s *timeSlot) add(i worker.Interval) error {
	if err := s.times.AddEncoded(i.Histogram); err != nil {
		return err
	}
	s.ended += i.Ended
	s.failed += i.Failed
	s.tookNS = max(s.tookNS, i.TookNS)
	return nil
}

// An IntervalHistory keeps the intervals of a worker's whole life. If there are too many intervals,
// it joins neighbours, so memory stays bounded.
type IntervalHistory struct {
	kept []worker.Interval
	each int // number of reported intervals that are joined into one kept interval
	last int // number of reported intervals in the last kept interval
}

// maxKeptIntervals bounds the number of kept intervals. It must be even, since Add joins pairs.
const maxKeptIntervals = 128

// Add adds the next interval.
func (c *IntervalHistory) Add(i worker.Interval) {
	c.each = max(1, c.each)
	if n := len(c.kept); n > 0 && c.last < c.each {
		c.kept[n-1] = joinIntervals(c.kept[n-1], i)
		c.last++
		return
	}
	if len(c.kept) == maxKeptIntervals {
		halves := make([]worker.Interval, 0, maxKeptIntervals)
		for pair := range slices.Chunk(c.kept, 2) {
			halves = append(halves, joinIntervals(pair[0], pair[1]))
		}
		c.kept = halves
		c.each *= 2
	}
	c.kept = append(c.kept, i)
	c.last = 1
}

// All returns a copy of the kept intervals.
func (c *IntervalHistory) All() []worker.Interval { return slices.Clone(c.kept) }

// joinIntervals joins two successive intervals into one.
func joinIntervals(a, b worker.Interval) worker.Interval {
	all := worker.Interval{StartNS: a.StartNS, TookNS: b.StartNS + b.TookNS - a.StartNS, Ended: a.Ended + b.Ended, Failed: a.Failed + b.Failed}
	times := latency.NewCoarseHistogram()
	for _, one := range []worker.Interval{a, b} {
		if times.AddEncoded(one.Histogram) != nil {
			// Keep the histogram that cannot be read: its reader reports the error.
			all.Histogram = one.Histogram
			return all
		}
	}
	// Encode fails only for larger counts than memory could hold.
	all.Histogram, _ = times.Encode()
	return all
}
