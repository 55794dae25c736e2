package crowd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
)

// journal returns random calls of a number of callers; each makes one call after the other. With
// late 1, some calls are sent later than they were due.
func journal(random *rand.Rand, callers int, end, late int64) []load.JournalCall {
	var calls []load.JournalCall
	for caller := range callers {
		for at := int64(1000 + random.IntN(1000)); at < end; {
			sent := at + max(0, int64(random.IntN(40_000))-20_000)*late
			call := load.JournalCall{Due: at, Sent: sent, Ended: sent + 1000 + int64(random.ExpFloat64()*200_000), Caller: uint32(caller)}
			if random.IntN(50) == 0 {
				call.Failure = 1 + uint32(random.IntN(2))
			}
			calls = append(calls, call)
			at = call.Ended + int64(random.IntN(5000))
		}
	}
	return calls
}

func replayed(t *testing.T, plan load.Plan, callers int, j load.Journal) *worker.ClientResult {
	t.Helper()
	plan.Callers = make([]load.Caller, callers)
	j.Failures = []record.ErrorCount{{Class: "reset", Code: "Unavailable", Example: "reset"}, {Class: "refused", Code: "Unavailable", Example: "refused"}}
	measured, err := load.Replay(plan, j)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(measured.Close)
	if err := measured.Encode(); err != nil {
		t.Fatal(err)
	}
	return &worker.ClientResult{
		Measurement: measured.Measurement, BeginNS: measured.Begin, EndNS: measured.End,
		BetweenNS: int64(measured.Between), Failures: measured.Failures,
	}
}

// Calls of many callers come to the same whether one client made them or several did.
func TestMergedClientsAreTheWhole(t *testing.T) {
	for _, parts := range []int{1, 2, 5, 12} {
		t.Run(fmt.Sprint("closed, ", parts), func(t *testing.T) { testMerge(t, parts, nil) })
		t.Run(fmt.Sprint("open, ", parts), func(t *testing.T) { testMerge(t, parts, &load.Arrivals{RatePerSecond: 1000}) })
	}
}

func testMerge(t *testing.T, parts int, open *load.Arrivals) {
	t.Helper()
	const begin, end = int64(40e6), int64(240e6)
	random := rand.New(rand.NewPCG(uint64(parts), 7))
	const callers = 12
	late := int64(0)
	if open != nil {
		late = 1
	}
	calls := journal(random, callers, end, late)
	plan := load.Plan{Duration: time.Duration(end - begin), Open: open, WarmUp: load.WarmUp{AtLeast: 40 * time.Millisecond, AtMost: 40 * time.Millisecond}}
	whole := replayed(t, plan, callers, load.Journal{Calls: slices.Clone(calls), Begin: begin, End: end})
	if whole.Straddling == 0 || len(whole.Failures) != 2 || whole.WarmUp.Requests == 0 {
		t.Fatalf("the calls try too little: %+v", whole.Measurement)
	}
	var of []worker.ClientPart
	first := 0
	for i, n := range divideEvenly(callers, parts) {
		var own []load.JournalCall
		for _, c := range calls {
			if int(c.Caller) >= first && int(c.Caller) < first+n {
				c.Caller -= uint32(first)
				own = append(own, c)
			}
		}
		first += n
		of = append(of, worker.ClientPart{Agent: fmt.Sprint("client-", i), Clients: n, Result: worker.Result{
			Client: replayed(t, plan, n, load.Journal{Calls: own, Begin: begin, End: end}),
		}})
	}
	merged, err := Merge(of, nil)
	if err != nil {
		t.Fatal(err)
	}
	sameClient(t, merged, whole)
}

func sameClient(t *testing.T, merged, whole *worker.ClientResult) {
	t.Helper()
	if merged.BeginNS != whole.BeginNS || merged.EndNS != whole.EndNS || merged.BetweenNS != whole.BetweenNS {
		t.Errorf("window %d to %d, %d between calls; want %d, %d, %d", merged.BeginNS, merged.EndNS, merged.BetweenNS, whole.BeginNS, whole.EndNS, whole.BetweenNS)
	}
	type counts struct {
		requests, completed, straddling, straddlingNS, backlogNS, failedNS, warm, warmNS int64
	}
	count := func(r *worker.ClientResult) counts {
		return counts{r.Requests, r.Completed, r.Straddling, r.StraddlingNS, r.BacklogNS, *r.FailedNS, r.WarmUp.Requests, r.WarmUp.TookNS}
	}
	if got, want := count(merged), count(whole); got != want {
		t.Errorf("merged %+v\nwhole  %+v", got, want)
	}
	if math.Abs(merged.InFlight-whole.InFlight) > 1e-9 || math.Abs(merged.Active-whole.Active) > 1e-9 {
		t.Errorf("%v in flight, %v active; want %v, %v", merged.InFlight, merged.Active, whole.InFlight, whole.Active)
	}
	if !reflect.DeepEqual(merged.Service, whole.Service) {
		t.Errorf("service times of %+v\nwant %+v", merged.Service, whole.Service)
	}
	if !reflect.DeepEqual(merged.Response, whole.Response) || !reflect.DeepEqual(merged.Pacing, whole.Pacing) {
		t.Errorf("response times of %+v, paced by %+v\nwant %+v, %+v", merged.Response, merged.Pacing, whole.Response, whole.Pacing)
	}
	if !reflect.DeepEqual(merged.Failures, whole.Failures) {
		t.Errorf("failures %+v, want %+v", merged.Failures, whole.Failures)
	}
	sums := func(r *worker.ClientResult) (requests, ns int64) {
		for _, i := range r.Intervals {
			requests += i.Requests
			ns += i.SumNS
		}
		return requests, ns
	}
	gotCalls, gotNS := sums(merged)
	if calls, ns := sums(whole); gotCalls != calls || gotNS != ns {
		t.Errorf("%d calls of %d ns in the intervals, want %d of %d", gotCalls, gotNS, calls, ns)
	}
}

// Little's law holds for windows of different lengths, as those that requests bound.
func TestMergeKeepsLittlesLaw(t *testing.T) {
	plan := load.Plan{Requests: 200}
	var of []worker.ClientPart
	var busy, wholeBusy float64
	for i, pace := range []int64{100_000, 170_000, 400_000} {
		var calls []load.JournalCall
		for at, n := int64(i)*1e6, 0; n < 200; n++ {
			calls = append(calls, load.JournalCall{Due: at, Sent: at, Ended: at + pace})
			at += pace + 1000
		}
		r := replayed(t, plan, 1, load.Journal{Calls: calls, Begin: int64(i) * 1e6})
		busy += r.InFlight * float64(r.EndNS-r.BeginNS)
		of = append(of, worker.ClientPart{Agent: fmt.Sprint(i), Clients: 1, Result: worker.Result{Client: r}})
	}
	merged, err := Merge(of, nil)
	if err != nil {
		t.Fatal(err)
	}
	wholeBusy = merged.InFlight * float64(merged.EndNS-merged.BeginNS)
	if merged.BeginNS != 0 || merged.EndNS != of[2].Result.Client.EndNS {
		t.Errorf("window %d to %d, want the first's begin and the last's end", merged.BeginNS, merged.EndNS)
	}
	if math.Abs(wholeBusy/busy-1) > 1e-9 || math.Abs(float64(merged.Service.Sum)/busy-1) > 1e-9 {
		t.Errorf("%v ns in calls, and service times of %v; want %v", wholeBusy, merged.Service.Sum, busy)
	}
	if merged.Active > 2.3 {
		t.Errorf("%v were active, though one went on alone for half of the window", merged.Active)
	}
}

// What opened a little apart is one window from the first on, as long as each.
func TestMergeOfWindowsThatOpenedApart(t *testing.T) {
	at := func(begin int64) worker.ClientPart {
		return worker.ClientPart{Result: worker.Result{Client: &worker.ClientResult{
			BeginNS: begin, EndNS: begin + 1e9 + begin%7, Measurement: record.Measurement{
				InFlight: 2, Active: 4, Requests: 10, Service: latency.Distribution{Count: 10, Sum: 100, Min: 10, Max: 10}, PausedNS: 1e8, Pauses: 1,
				Traces:    []record.Trace{{ID: fmt.Sprint(begin), AfterNS: 5, ServiceNS: begin}},
				Intervals: []record.Interval{{StartNS: -5e6, TookNS: 5e6, Requests: 7, SumNS: 70}, {TookNS: 5e6, Requests: 3, SumNS: 30}},
			},
		}}}
	}
	merged, err := Merge([]worker.ClientPart{at(1000), at(1_001_000)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if merged.BeginNS != 1000 || math.Abs(float64(merged.EndNS-merged.BeginNS-1e9)) > 7 || merged.PausedNS != 1e8 || merged.Pauses != 1 {
		t.Errorf("window %d to %d, paused for %d", merged.BeginNS, merged.EndNS, merged.PausedNS)
	}
	if math.Abs(merged.InFlight-4) > 1e-6 || math.Abs(merged.Active-8) > 1e-6 {
		t.Errorf("%v in flight, %v active", merged.InFlight, merged.Active)
	}
	if merged.Traces[0].AfterNS != 1e6+5 {
		t.Errorf("the second's trace began %d after the window, want a millisecond more than by its own", merged.Traces[0].AfterNS)
	}
	var calls int64
	for i, interval := range merged.Intervals {
		calls += interval.Requests
		if i > 0 && interval.StartNS != merged.Intervals[i-1].StartNS+merged.Intervals[i-1].TookNS {
			t.Errorf("interval %d does not begin where the one before ends: %+v", i, merged.Intervals)
		}
	}
	onGrid := slices.ContainsFunc(merged.Intervals, func(i record.Interval) bool { return i.StartNS == 0 })
	if calls != 20 || !onGrid {
		t.Errorf("%d calls, want 20, with an edge at the window's: %+v", calls, merged.Intervals)
	}
}

func TestMergeMakesTheCourseOfIntervals(t *testing.T) {
	part := func(agent string) worker.ClientPart {
		return worker.ClientPart{Agent: agent, Result: worker.Result{Client: &worker.ClientResult{BeginNS: 2e9, EndNS: 4e9}}}
	}
	encoded := func(ns ...int64) worker.Interval {
		h := hdrhistogram.New(256, 1<<36-1, 2)
		for _, v := range ns {
			if err := h.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		return worker.Interval{TookNS: 1e9, Ended: int64(len(ns)), Failed: 1, Histogram: string(text)}
	}
	at := func(i worker.Interval, start int64) worker.Interval { i.StartNS = start; return i }
	quick, slow := slices.Repeat([]int64{100_000}, 60), slices.Repeat([]int64{5_000_000}, 60)
	parts := []worker.ClientPart{part("a"), part("b")}
	merged, err := Merge(parts, [][]worker.Interval{
		{at(encoded(quick...), 1e9), at(encoded(100_000), 2e9)},
		{at(encoded(slow...), 1e9+30_000), at(worker.Interval{TookNS: 4e8}, 2e9+30_000)},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := merged.Course
	if c == nil || c.BeginNS != -1e9 || c.StretchNS != 1e9 || !slices.Equal(c.Calls, []int64{120, 1}) || !slices.Equal(c.Failed, []int64{2, 1}) {
		t.Fatalf("course %+v", c)
	}
	near := func(got *int64, want float64) bool { return got != nil && math.Abs(float64(*got)/want-1) < 0.01 }
	if !near(c.ResponseP50NS[0], 100_000) || !near(c.ResponseP99NS[0], 5_000_000) || !near(c.P99NS[0], 5_000_000) || !near(c.ResponseMaxNS[1], 100_000) {
		t.Errorf("quantiles %v %v %v %v", c.ResponseP50NS, c.ResponseP99NS, c.P99NS, c.ResponseMaxNS)
	}
	if c.ResponseP50NS[1] != nil || c.ResponseP99NS[1] != nil {
		t.Error("one call has a median")
	}
	if merged, err = Merge(parts, [][]worker.Interval{{encoded(1)}, nil}); err != nil || merged.Course != nil {
		t.Errorf("without the intervals of one: %+v, %v; want no course", merged.Course, err)
	}
	broken := [][]worker.Interval{{at(encoded(1), 1e9)}, {{StartNS: 1e9, TookNS: 1e9, Histogram: "HIST"}}}
	if _, err := Merge(parts, broken); err == nil || !strings.Contains(err.Error(), "an interval of b") {
		t.Errorf("%v: want the broken interval's agent", err)
	}
}

func TestMergeRefuses(t *testing.T) {
	good := worker.ClientPart{Agent: "a", Result: worker.Result{Client: &worker.ClientResult{BeginNS: 0, EndNS: 1e9}}}
	for says, change := range map[string]func(*worker.ClientResult){
		"ran a search":           func(r *worker.ClientResult) { r.Search = &record.Search{} },
		"an impossible window":   func(r *worker.ClientResult) { r.EndNS = 0 },
		"instants of one clock":  func(r *worker.ClientResult) { r.BeginNS, r.EndNS = 1e15, 1e15+1 },
		"an impossible interval": func(r *worker.ClientResult) { r.Intervals = []record.Interval{{TookNS: 1e16}} },
		"service times":          func(r *worker.ClientResult) { r.Service = latency.Distribution{Count: 1, Histogram: "HIST"} },
	} {
		bad := &worker.ClientResult{BeginNS: 0, EndNS: 1e9}
		change(bad)
		if _, err := Merge([]worker.ClientPart{good, {Agent: "b", Result: worker.Result{Client: bad}}}, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want an error that says %q", err, says)
		}
	}
	if _, err := Merge([]worker.ClientPart{good, {Agent: "b"}}, nil); err == nil || !strings.Contains(err.Error(), "b has no client result") {
		t.Errorf("%v: want the part without a result", err)
	}
	if _, err := Merge(nil, nil); err == nil {
		t.Error("nothing was merged")
	}
}
