package load

import (
	"testing"
	"testing/synctest"
	"time"
)

// In an open loop a stall shows in the response times of all arrivals that it holds up; the
// service times have it in the calls alone that were in flight.
func TestCourseHasTheResponseTimesOfAnOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Plan{
			Callers:  callers(2, &server{delay: time.Millisecond, stall: 200 * time.Millisecond, period: time.Second}),
			Duration: 3 * time.Second, Open: &Arrivals{RatePerSecond: 400},
		}
		course := mustRun(t, p).Course
		slow := 0
		for n, p50 := range course.ResponseP50NS {
			if p50 == nil {
				continue
			}
			if worst := course.ResponseMaxNS[n]; worst == nil || *worst < *p50 {
				t.Errorf("stretch %d: the slowest took %v and the half %v", n, worst, *p50)
			}
			if *p50 > int64(20*time.Millisecond) {
				slow++
			}
		}
		if slow < 3 {
			t.Errorf("%d stretches have a slow P50, want one a stall of three at least", slow)
		}
		slowServed := 0
		for _, p99 := range course.P99NS {
			if p99 != nil && *p99 > int64(20*time.Millisecond) {
				slowServed++
			}
		}
		if slowServed >= slow {
			t.Errorf("%d stretches have slow service times, of %d with slow response times: the test proves nothing", slowServed, slow)
		}
	})
}

func TestCourseHasFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{Callers: callers(4, &server{delay: time.Millisecond, failEvery: 10}), Duration: time.Second})
		calls, failed := int64(0), int64(0)
		for n, count := range r.Course.Calls {
			calls, failed = calls+count, failed+r.Course.Failed[n]
		}
		if failed != calls/10 {
			t.Errorf("%d of %d calls failed, want each tenth", failed, calls)
		}
	})
}
