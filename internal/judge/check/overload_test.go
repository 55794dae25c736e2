package check

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// queueing is an open loop whose requests wait, first come first served, for one of so
// many servers.
type queueing struct {
	capacity float64 // of all servers together, per second
	servers  int
	offered  float64 // per second
	poisson  bool
	service  func(*rand.Rand) float64 // of a request, 1 in the mean
	window   time.Duration
	stall    time.Duration // of all servers, in the window's last tenth
}

func even(*rand.Rand) float64                   { return 1 }
func exponential(r *rand.Rand) float64          { return r.ExpFloat64() }
func uneven(r *rand.Rand) float64               { return math.Exp(0.5*r.NormFloat64() - 0.125) } // half its mean apart
func (q queueing) beyond(load float64) queueing { q.offered = load * q.capacity; return q }

// freeAt holds the instants at which servers are free, as a heap.
type freeAt []float64

func (f freeAt) Len() int           { return len(f) }
func (f freeAt) Less(i, j int) bool { return f[i] < f[j] }
func (f freeAt) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *freeAt) Push(any)          { panic("servers do not come and go") }
func (f *freeAt) Pop() any          { panic("servers do not come and go") }

// record is the trial that the load engine would record, after a warm-up of 250 ms.
func (q queueing) record(random *rand.Rand) *record.Record {
	const tick, warm = 0.005, 0.25
	window := q.window.Seconds()
	end := warm + window
	r := &record.Record{Cell: record.Cell{Load: record.Load{Model: "open", RatePerSecond: q.offered, Arrivals: "constant"}}, WindowNS: int64(q.window)}
	if q.poisson {
		r.Cell.Load.Arrivals = "poisson"
	}
	r.Pacing, r.Response = &record.Pacing{}, &latency.Distribution{}
	ended := make([]int64, int(math.Round(end/tick)))
	sums := make([]int64, len(ended)) // of the times from arrival to answer
	free := make(freeAt, q.servers)
	for at := 0.0; ; {
		if q.poisson {
			at += random.ExpFloat64() / q.offered
		} else {
			at += 1 / q.offered
		}
		if at >= end {
			break
		}
		begin := max(at, free[0])
		if stall := warm + 0.9*window; q.stall > 0 && begin >= stall && begin < stall+q.stall.Seconds() {
			begin = stall + q.stall.Seconds()
		}
		done := begin + float64(q.servers)/q.capacity*q.service(random)
		free[0] = done
		heap.Fix(&free, 0)
		if place := int(done / tick); place < len(ended) {
			ended[place]++
			sums[place] += int64((done - at) * 1e9)
		}
		if at >= warm {
			r.Pacing.Scheduled++
			r.Response.Count++
			r.Response.Sum += int64((done - at) * 1e9)
		}
		if done >= warm && done < end {
			r.Completed++
		}
	}
	for place, requests := range ended {
		r.Intervals = append(r.Intervals, record.Interval{StartNS: int64(math.Round((float64(place)*tick - warm) * 1e9)), TookNS: int64(tick * 1e9), Requests: requests, SumNS: sums[place]})
	}
	return r
}

// called is the share of such trials that the judge calls beyond capacity, and the mean
// of the capacities that it says.
func (q queueing) called(draws int) (share, capacity float64) {
	random := rand.New(rand.NewPCG(5, math.Float64bits(q.offered)))
	calls := 0
	for range draws {
		if c := (trial{Record: q.record(random), limits: DefaultLimits()}).checkOverload(); c.Level == record.Invalid {
			calls++
			capacity += *c.Figure
		}
	}
	return float64(calls) / float64(draws), capacity / float64(calls)
}

// What the review of the first version saw pass: a capacity of 1,000 a second and 1,040
// offered over 5 and 10 s, 1,090 offered; with 950 offered beside them. With exponential
// service times 10,000 requests vary by 1 % from window to window, which is why 4 % too
// many do not always stand out.
func TestOverloadIsSeenAndALoadBelowCapacityIsNot(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates a million requests a row; the full tests do")
	}
	for _, c := range []struct {
		name   string
		of     queueing
		caught float64 // least share at 104 % of the capacity
	}{
		{"D/D/1 for 1 s", queueing{capacity: 1000, servers: 1, service: even, window: time.Second}, 1},
		{"D/D/1 for 5 s", queueing{capacity: 1000, servers: 1, service: even, window: 5 * time.Second}, 1},
		{"M/D/1 for 1 s", queueing{capacity: 1000, servers: 1, service: even, poisson: true, window: time.Second}, 0.85},
		{"M/D/1 for 5 s", queueing{capacity: 1000, servers: 1, service: even, poisson: true, window: 5 * time.Second}, 0.95},
		{"M/D/1 for 10 s", queueing{capacity: 1000, servers: 1, service: even, poisson: true, window: 10 * time.Second}, 0.95},
		{"M/G/8 for 5 s", queueing{capacity: 1000, servers: 8, service: uneven, poisson: true, window: 5 * time.Second}, 0.95},
		{"M/M/8 for 10 s", queueing{capacity: 1000, servers: 8, service: exponential, poisson: true, window: 10 * time.Second}, 0.8},
		{"M/M/8, 10,000/s for 1 s", queueing{capacity: 10_000, servers: 8, service: exponential, poisson: true, window: time.Second}, 0.8},
		{"D/M/1, 10,000/s for 1 s", queueing{capacity: 10_000, servers: 1, service: exponential, window: time.Second}, 0.8},
	} {
		const draws = 200
		half, _ := c.of.beyond(0.5).called(draws)
		most, _ := c.of.beyond(0.95).called(draws)
		caught, capacity := c.of.beyond(1.04).called(draws)
		far, _ := c.of.beyond(1.09).called(draws)
		t.Logf("%-24s called beyond capacity at 50 %%: %4.1f %%, at 95 %%: %4.1f %%, at 104 %%: %5.1f %%, at 109 %%: %5.1f %%",
			c.name, 100*half, 100*most, 100*caught, 100*far)
		// With a true share of 1 %, more than 5 of 200 are seen once in 60 rows.
		if half > 0.025 || most > 0.025 || caught < c.caught || far < 0.95 {
			t.Errorf("%s: called beyond capacity: %.3f, %.3f, %.3f, %.3f", c.name, half, most, caught, far)
		}
		if math.Abs(capacity/c.of.capacity-1) > 0.01 {
			t.Errorf("%s: the capacity is said to be %.0f/s, want %.0f", c.name, capacity, c.of.capacity)
		}
	}
}

// A queue near its capacity goes up and down, which is no warm-up.
func TestAQueueIsNotTakenForAWarmUp(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates two million requests; the full tests do")
	}
	for _, load := range []float64{0.5, 0.8, 0.95} {
		for _, window := range []time.Duration{time.Second, 5 * time.Second} {
			q := queueing{capacity: 1000, servers: 5, service: even, poisson: true, window: window}.beyond(load)
			random := rand.New(rand.NewPCG(5, 6))
			const draws = 100
			taken := 0
			for range draws {
				r := q.record(random)
				r.Cell.Clients, r.Active, r.WarmUp = 1, 1, record.WarmUp{Settled: true, Method: "MSER-5"}
				if (trial{Record: r, limits: DefaultLimits()}).checkSettled().Level != record.OK {
					taken++
				}
			}
			if taken > 3 {
				t.Errorf("at %v of the capacity, %v: %d of %d windows are said to have opened too early", load, window, taken, draws)
			}
		}
	}
}

func TestBeyondCapacityIsSaid(t *testing.T) {
	q := queueing{capacity: 1000, servers: 1, service: even, window: 5 * time.Second}
	random := rand.New(rand.NewPCG(1, 1))
	over := q.beyond(1.04).record(random)
	for name, c := range map[string]struct {
		r     *record.Record
		level record.Level
		says  string
	}{
		"overload":                    {over, record.Invalid, "the load exceeds the capacity, which is about 1000/s (1000 to 1000): 1040/s requests were scheduled, and 199 of them were not answered"},
		"full":                        {q.beyond(1).record(random), record.OK, "1000/s requests were scheduled, and 1000/s were answered"},
		"a stall at the end":          {queueing{capacity: 1000, servers: 1, service: even, window: time.Second, stall: 80 * time.Millisecond}.beyond(0.5).record(random), record.OK, "500/s requests were scheduled"},
		"a few requests, overloaded":  {queueing{capacity: 20, servers: 1, service: even, window: time.Second}.beyond(2).record(random), record.Invalid, "which is about 20/s (20 to 20): 40/s requests were scheduled, and 20 of them"},
		"a few requests":              {queueing{capacity: 100, servers: 1, service: even, window: time.Second}.beyond(0.2).record(random), record.OK, "20/s requests were scheduled"},
		"a ramp":                      {shaped(over, "ramp"), record.OK, "does not apply"},
		"a burst":                     {shaped(over, "burst"), record.OK, "does not apply"},
		"a search that kept its goal": {searchedFor(over), record.Warning, "exceeds the capacity"},
		"a closed loop":               {&record.Record{WindowNS: 1e9}, record.OK, "does not apply"},
		"no window":                   {&record.Record{Measurement: record.Measurement{Pacing: &record.Pacing{}}}, record.OK, "does not apply"},
		"a record without its course, overloaded": {withoutCourse(20_000, 1), record.Invalid, "which is about 10000/s: 20000/s requests were scheduled, and 10000 of them"},
		"a record without its course":             {withoutCourse(10_001, 1), record.OK, "/s were answered"},
		"calls in flight are none that wait":      {withoutCourse(11_000, 1000), record.OK, "/s were answered"},
	} {
		got := trial{Record: c.r, limits: DefaultLimits()}.checkOverload()
		if got.Level != c.level || !strings.Contains(got.Detail, c.says) {
			t.Errorf("%s: %s: %s", name, got.Level, got.Detail)
		}
	}
}

func shaped(r *record.Record, model string) *record.Record {
	other := *r
	other.Cell.Load.Model = model
	return &other
}

func searchedFor(r *record.Record) *record.Record {
	other := shaped(r, "search")
	other.Search = &record.Search{KeptPerSecond: 1040}
	return other
}

// withoutCourse is a window of a second in which 10,000 requests were answered.
func withoutCourse(scheduled int64, inFlight float64) *record.Record {
	r := &record.Record{WindowNS: 1e9, Cell: record.Cell{Load: record.Load{Model: "open"}}}
	r.Completed, r.InFlight, r.Pacing = 10_000, inFlight, &record.Pacing{Scheduled: scheduled}
	r.Service.Count, r.Service.Sum = 10_000, 1e9
	return r
}
