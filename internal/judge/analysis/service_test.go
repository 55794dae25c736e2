package analysis

import (
	"math"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// served is a trial of a service of 1,000 answers a second, which stands still for 200 ms in
// each second from its begin on.
func served(t *testing.T, seconds int) *record.Record {
	t.Helper()
	r := truth{variant: "service:wire=h1", clients: 1, mean: time.Millisecond, requests: 800 * seconds}.record(t, 1)
	r.Cell.Stack, r.Cell.Load = record.ServiceStack, record.Load{Model: "closed", DurationNS: int64(seconds) * 1e9}
	r.WindowNS = int64(seconds) * 1e9
	const step = 20 * time.Millisecond
	r.Intervals = nil
	for at := time.Duration(0); at <= time.Duration(seconds)*time.Second; at += step {
		interval := record.Interval{StartNS: int64(at), TookNS: int64(step), Requests: 20, SumNS: 2e7}
		if at%time.Second < 200*time.Millisecond {
			interval.Requests, interval.SumNS = 0, 0
		}
		r.Intervals = append(r.Intervals, interval)
	}
	r.Course = &record.Course{StretchNS: 1e8}
	for n := range 10 * seconds {
		count, slowest := int64(100), int64(1e6)
		switch n % 10 {
		case 0, 1:
			count = 0
		case 2:
			slowest = 2e8
		}
		r.Course.Calls, r.Course.Failed = append(r.Course.Calls, count), append(r.Course.Failed, count/4)
		if count == 0 {
			r.Course.ResponseMaxNS, r.Course.ResponseP50NS = append(r.Course.ResponseMaxNS, nil), append(r.Course.ResponseP50NS, nil)
			continue
		}
		r.Course.ResponseMaxNS, r.Course.ResponseP50NS = append(r.Course.ResponseMaxNS, &slowest), append(r.Course.ResponseP50NS, new(int64(1e6)))
	}
	r.Statuses = []record.StatusCount{{Status: 200, Count: 900}, {Status: 500, Count: 100}}
	return r
}

func TestAServiceIsFollowed(t *testing.T) {
	first, second := served(t, 5), served(t, 5)
	second.Repeat, second.Trial = 2, 1
	second.Statuses = []record.StatusCount{{Status: 404, Count: 5}, {Status: 200, Count: 1}}
	c := summarize(t, []*record.Record{first, second}).Cells[0]
	if n, longest := c.Standstills(); n != 5 || math.Abs(longest-0.2) > 0.05 {
		t.Errorf("%d standstills of up to %.3g s, want 5 of 0.2 s", n, longest)
	}
	if len(c.Course) < 80 {
		t.Errorf("%d stretches: too few to see a stall of 200 ms in", len(c.Course))
	}
	peaks := 0
	for _, point := range c.Course {
		if point.ResponseMaxUS != nil && *point.ResponseMaxUS == 2e5 {
			peaks++
		}
		if point.FailedShare != nil && *point.FailedShare != 0.25 {
			t.Errorf("at %g s %g of the calls failed, want a quarter", point.Seconds, *point.FailedShare)
		}
	}
	if peaks != 5 {
		t.Errorf("%d peaks of the response time, want 5", peaks)
	}
	if want := []record.StatusCount{{Status: 200, Count: 901}, {Status: 404, Count: 5}, {Status: 500, Count: 100}}; len(c.Statuses) != 3 || c.Statuses[0] != want[0] || c.Statuses[1] != want[1] || c.Statuses[2] != want[2] {
		t.Errorf("statuses %v, want %v", c.Statuses, want)
	}
	total := int64(0)
	for _, step := range c.Spread {
		total += step.Requests
	}
	if total != c.Requests || c.WindowSeconds != 5 {
		t.Errorf("the spread has %d of %d requests, in a window of %g s", total, c.Requests, c.WindowSeconds)
	}
}

// A trial that was refused shows how it went all the same, and one of a slow service no
// standstill that is only chance.
func TestARefusedServiceIsFollowedToo(t *testing.T) {
	r := served(t, 5)
	r.Checks = []record.Check{{Name: "neighbours", Level: record.Invalid, Detail: "others took 75 % of the CPU time"}}
	c := summarize(t, []*record.Record{r}).Cells[0]
	if c.IsValid() || len(c.Course) == 0 || len(c.Spread) == 0 || len(c.Curve) == 0 {
		t.Errorf("valid %v, %d stretches, %d steps", c.IsValid(), len(c.Course), len(c.Spread))
	}
	for i := range r.Intervals {
		r.Intervals[i].Requests /= 10
	}
	slow := summarize(t, []*record.Record{r}).Cells[0]
	if n, _ := slow.Standstills(); n != 0 {
		t.Errorf("%d standstills where four calls are usual in a stretch", n)
	}
}
