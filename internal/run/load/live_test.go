package load

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
)

func TestLiveBuckets(t *testing.T) {
	for _, ns := range []int64{-5, 0, 1, 999, 1000} {
		if got := liveBucket(ns); got != 0 {
			t.Errorf("%d ns are in bucket %d, want the first", ns, got)
		}
	}
	if got := liveBucket(int64(live.LongestBin) + 1); got != liveBuckets-1 {
		t.Errorf("what is longer than all is in bucket %d", got)
	}
	for bucket := range liveBuckets - 1 {
		upTo := liveBucketLimit(bucket)
		if in, next := liveBucket(upTo), liveBucket(upTo+1); in != bucket || next != bucket+1 {
			t.Errorf("bucket %d ends at %d ns, which is in %d, and the next in %d", bucket, upTo, in, next)
		}
	}
	if last := liveBucketLimit(liveBuckets - 2); last != int64(live.LongestBin) || liveBucket(math.MaxInt64) != liveBuckets-1 {
		t.Errorf("the last bucket but one ends at %d", last)
	}
}

// stepped is a server whose delay is another one from an instant on.
type stepped struct {
	from          int64
	before, later time.Duration
	failEvery     int64
	calls         int64
}

func (s *stepped) Call(context.Context) error {
	delay := s.before
	if clock.Now() >= s.from {
		delay = s.later
	}
	time.Sleep(delay)
	if s.calls++; s.failEvery > 0 && s.calls%s.failEvery == 0 {
		return errors.New("scripted fault")
	}
	return nil
}

// Injected delays come out again, and those of before are forgotten.
func TestLiveFiguresFollowTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []live.Progress
		began := clock.Now()
		var all []Caller
		for i := range 10 {
			before := 2 * time.Millisecond
			if i == 0 {
				before = 40 * time.Millisecond
			}
			all = append(all, &stepped{from: began + int64(5*time.Second), before: before, later: 300 * time.Microsecond, failEvery: 10})
		}
		r := mustRun(t, Plan{
			Callers: all, Duration: 10 * time.Second, Drain: time.Second, Live: true,
			Report:   func(p live.Progress) { shown = append(shown, p) },
			Classify: func(error) record.ErrorCount { return record.ErrorCount{Class: "scripted", Code: "Internal"} },
		})
		if len(shown) < 38 {
			t.Fatalf("%d reports in 10 s", len(shown))
		}
		early, late := shown[18].Live, shown[len(shown)-1].Live
		within(t, "early P50", float64(early.P50NS), 2e6, 1./16)
		within(t, "early P90", float64(early.P90NS), 2e6, 1./16)
		if early.MaxNS != int64(40*time.Millisecond) {
			t.Errorf("the slowest of the early calls took %v", time.Duration(early.MaxNS))
		}
		within(t, "early rate", float64(early.Ended)/time.Duration(early.SpanNS).Seconds(), 9*500+25, 0.02)
		within(t, "early failures", float64(early.Failed), float64(early.Ended)/10, 0.05)
		within(t, "late P50", float64(late.P50NS), 3e5, 1./16)
		within(t, "late P99", float64(late.P99NS), 3e5, 1./16)
		if late.MaxNS != int64(300*time.Microsecond) {
			t.Errorf("the slowest of the late calls took %v: older ones are still in it", time.Duration(late.MaxNS))
		}
		if late.InFlight != 10 {
			t.Errorf("%d calls in flight, want 10", late.InFlight)
		}
		holdsLiveTotals(t, late, r)
	})
}

func holdsLiveTotals(t *testing.T, late *live.Calls, r *Result) {
	t.Helper()
	within(t, "total", float64(late.Total.Ended), float64(r.Requests), 0.03)
	within(t, "sum", float64(late.Total.SumNS), r.service.Mean().Seconds()*1e9*float64(r.Requests), 0.03)
	var binned int64
	for _, b := range late.Histogram {
		binned += b.Count
	}
	if binned != late.Total.Ended {
		t.Errorf("the histogram has %d calls of %d", binned, late.Total.Ended)
	}
	if first, last := late.Histogram[0], late.Histogram[len(late.Histogram)-1]; first.UpToNS != 512_000 || last.UpToNS != 65_536_000 {
		t.Errorf("the histogram is from %+v to %+v", first, last)
	}
	want := record.ErrorCount{Class: "scripted", Code: "Internal", Count: late.Total.Failed}
	if len(late.Failures) != 1 || late.Failures[0] != want || late.Total.Failed == 0 {
		t.Errorf("failures %+v, want %+v", late.Failures, want)
	}
}

// The times of an open loop are from the intended instant.
func TestLiveTimesAreResponseTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last *live.Calls
		mustRun(t, Plan{
			Callers: callers(10, &server{delay: 10 * time.Millisecond}), InFlight: 2, Duration: 3 * time.Second, Drain: time.Second,
			Live: true, Report: func(p live.Progress) { last = p.Live },
		})
		within(t, "P50 with a wait of 40 ms", float64(last.P50NS), 50e6, 1./16)
	})
}

// A client that waits for its last calls goes on to report.
func TestReportsGoOnInTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []live.Progress
		mustRun(t, Plan{
			Callers: callers(3, &server{delay: time.Millisecond, hangAfter: 30}), Duration: time.Second, Drain: 10 * time.Second,
			Live: true, Report: func(p live.Progress) { shown = append(shown, p) },
		})
		last := shown[len(shown)-1]
		if n := len(shown); n < 42 || last.Fraction != 1 || last.Live.InFlight != 3 || last.Live.Ended != 0 || last.Live.P99NS != 0 {
			t.Errorf("%d reports in 11 s, the last of them %+v with %+v", n, last, last.Live)
		}
	})
}

// Kinds of failures are bounded.
func TestLiveFailuresAreBounded(t *testing.T) {
	l := &liveCounts{}
	for i := range 10 * maxLiveFailureKinds {
		l.countFailure(record.ErrorCount{Class: time.Duration(i).String()})
	}
	all := map[record.ErrorCount]int64{}
	l.addFailuresTo(all)
	if len(all) != maxLiveFailureKinds+1 || all[record.ErrorCount{Class: "other"}] != 9*maxLiveFailureKinds {
		t.Errorf("%d kinds, %d others", len(all), all[record.ErrorCount{Class: "other"}])
	}
}
