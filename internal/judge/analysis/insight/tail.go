package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Tail shows where the slow calls of a cell spend more time than its median calls. Both groups are
// chosen within each pass, so that a slow pass does not count as slow calls. Times are in
// microseconds per call.
type Tail struct {
	Calls       int     `json:"calls"`        // calls whose stages were separated
	SlowCalls   int     `json:"slow_calls"`   // the slowest 1 % of the calls, but at least 10
	MedianCalls int     `json:"median_calls"` // the calls between P40 and P60
	Slow        float64 `json:"slow_us"`      // mean time of a slow call
	Median      float64 `json:"median_us"`    // mean time of a median call
	// Stages are in the order of a call. Their times add up to Slow and Median, and their shares to 1.
	Stages []TailStage `json:"stages"`
	Causes []Cause     `json:"causes"` // what the stages say about Slow minus Median, the largest share first
	// EveryCalls is the number of calls from one slow call to the next; null unless it is always
	// about the same.
	EveryCalls *int `json:"every_calls" jsonschema:"nullable"`
	// Every is the time from one slow call to the next; null unless it is always about the same, or if
	// EveryCalls is known.
	Every   *float64 `json:"every_us" jsonschema:"nullable"`
	Refused string   `json:"refused,omitempty"` // why slow and median calls cannot be compared; absent if they can

	errors float64 // half the width of a 95 % interval, in standard errors
}

// A TailStage compares one stage of slow calls with the same stage of median calls.
type TailStage struct {
	Name string `json:"name"`
	// Kind says where the time is spent.
	Kind string `json:"kind" jsonschema:"enum=user,enum=kernel,enum=waking,enum=scheduling,enum=waiting,enum=collector,enum=handler,enum=mixed"`
	// End is the end where the time is spent; empty means both ends.
	End string `json:"end" jsonschema:"enum=client,enum=server,enum="`

	Median   float64         `json:"median_us"`         // mean time in the median calls
	Slow     float64         `json:"slow_us"`           // mean time in the slow calls
	Excess   float64         `json:"excess_us"`         // Slow minus Median
	Share    float64         `json:"share_of_excess"`   // Excess divided by the sum of all stages' Excess
	Interval matrix.Interval `json:"interval"`          // of Share
	Variance float64         `json:"share_of_variance"` // covariance of the stage with the call's time, divided by the variance of the call's time
}

const (
	leastTailCalls = 200
	leastSlowCalls = 10
	slowShare      = 0.01
	tailConfidence = 0.95
	// The median calls are those between these quantiles.
	medianFrom, medianTo = 0.4, 0.6
)

// A tailPass holds the slow and the median calls of one pass.
type tailPass struct {
	life         *record.Life
	times        []int64 // of all calls
	slow, median []int   // indexes of calls
}

// newTail compares the slow calls of all passes with the median calls. It returns nil without calls.
func newTail(passes []*record.Record) *Tail {
	stages, lives := livesOf(passes)
	t := &Tail{}
	for _, life := range lives {
		t.Calls += len(life.Calls)
	}
	if t.Calls == 0 {
		return nil
	}
	if t.Calls < leastTailCalls {
		t.Refused = fmt.Sprintf("%d calls have known stages: measure %d or more (-n, --repeat)", t.Calls, leastTailCalls)
		return t
	}
	of := chooseCalls(lives, t.Calls)
	all := make([]int, len(stages))
	for i := range stages {
		all[i] = i
	}
	for _, p := range of {
		t.SlowCalls += len(p.slow)
		t.MedianCalls += len(p.median)
	}
	t.Slow, t.Median = of.means(all, t.SlowCalls)
	if t.Slow <= t.Median {
		t.Refused = "all calls take the same time"
		return t
	}
	excess := of.excess(all)
	t.errors = stats.NewStudent(excess.freedom).Quantile((1 + tailConfidence) / 2)
	variance := of.varianceShares(len(stages))
	for i, name := range stages {
		s := TailStage{Name: name, Kind: kindOf(name), End: stageEnd(name), Variance: variance[i]}
		s.Slow, s.Median = of.means(all[i:i+1], t.SlowCalls)
		s.Excess = s.Slow - s.Median
		share, standardError := of.share(all[i:i+1], excess)
		half := t.errors * standardError
		s.Share, s.Interval = share, matrix.Interval{Low: share - half, High: share + half, Confidence: tailConfidence}
		t.Stages = append(t.Stages, s)
	}
	t.Causes = of.causes(stages, excess, t.Slow-t.Median)
	t.EveryCalls, t.Every = of.period()
	return t
}

// Proves reports whether a cause's share is more than noise.
func (t *Tail) Proves(c Cause) bool { return c.Time > t.errors*c.Error }

type tailPasses []tailPass

// chooseCalls chooses the slow and the median calls of each pass.
func chooseCalls(lives []*record.Life, calls int) tailPasses {
	share := max(slowShare, leastSlowCalls/float64(calls))
	var all tailPasses
	before := 0
	for _, life := range lives {
		n := len(life.Calls)
		p := tailPass{life: life, times: lists.Map(life.Calls, sumOf[int64])}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.times[a], p.times[b]) })
		// Rounding the sums over the passes gives the right number of calls in total.
		slow := int(math.Round(share*float64(before+n))) - int(math.Round(share*float64(before)))
		before += n
		if slow == 0 {
			continue
		}
		p.slow = order[n-slow:]
		p.median = order[int(medianFrom*float64(n)):int(math.Ceil(medianTo*float64(n)))]
		all = append(all, p)
	}
	return all
}

// stageSum returns the time that a call spends in some stages, in microseconds.
func (p *tailPass) stageSum(call int, stages []int) (us float64) {
	for _, i := range stages {
		us += float64(p.life.Calls[call][i]) / 1e3
	}
	return us
}

func (p *tailPass) mean(calls, stages []int) (us float64) {
	for _, call := range calls {
		us += p.stageSum(call, stages)
	}
	return us / float64(len(calls))
}

// means returns the mean times of slow and median calls in some stages. Each pass has the weight of
// its slow calls.
func (of tailPasses) means(stages []int, slowCalls int) (slow, median float64) {
	for _, p := range of {
		weight := float64(len(p.slow)) / float64(slowCalls)
		slow += weight * p.mean(p.slow, stages)
		median += weight * p.mean(p.median, stages)
	}
	return slow, median
}

// A tailExcess is the time that the slow calls of all passes take longer than median calls.
type tailExcess struct {
	all     []int // indexes of all stages
	sum     float64
	values  float64 // number of independent values: passes or slow calls
	freedom float64 // degrees of freedom of an interval
}

// leastTailPasses is the least number of passes for intervals from the differences between passes.
const leastTailPasses = 3

func (of tailPasses) excess(all []int) tailExcess {
	e := tailExcess{all: all}
	for _, p := range of {
		e.values += float64(len(p.slow))
		e.sum += p.excess(all)
	}
	if e.freedom = e.values - float64(len(of)); len(of) >= leastTailPasses {
		e.values, e.freedom = float64(len(of)), float64(len(of)-1)
	}
	return e
}

func (p *tailPass) excess(stages []int) float64 {
	return float64(len(p.slow)) * (p.mean(p.slow, stages) - p.mean(p.median, stages))
}

// share returns the share of the excess that some stages have, with its standard error, by the delta
// method for a ratio of sums. With three passes or more, the passes are the independent values. With
// fewer, the calls are.
func (of tailPasses) share(stages []int, whole tailExcess) (share, standardError float64) {
	part := 0.0
	for _, p := range of {
		part += p.excess(stages)
	}
	share = part / whole.sum
	variance := 0.0
	for _, p := range of {
		if len(of) >= leastTailPasses {
			rest := p.excess(stages) - share*p.excess(whole.all)
			variance += rest * rest
			continue
		}
		spread := func(calls []int) (sum float64) {
			mean := p.mean(calls, stages) - share*p.mean(calls, whole.all)
			for _, call := range calls {
				rest := p.stageSum(call, stages) - share*p.stageSum(call, whole.all) - mean
				sum += rest * rest
			}
			return sum
		}
		slow, median := float64(len(p.slow)), float64(len(p.median))
		variance += spread(p.slow) + slow*slow*spread(p.median)/(median*median)
	}
	return share, math.Sqrt(variance*whole.values/whole.freedom) / whole.sum
}

// varianceShares returns each stage's share of the variance of the call's time within passes:
// Var(time) is the sum of Cov(stage, time) over the stages.
func (of tailPasses) varianceShares(stages int) []float64 {
	shares := make([]float64, stages)
	for _, p := range of {
		mean := float64(sumOf(p.times)) / float64(len(p.times))
		for call, time := range p.times {
			for i := range stages {
				// The stage's own mean cancels out, because the differences from the mean add up to 0.
				shares[i] += float64(p.life.Calls[call][i]) * (float64(time) - mean)
			}
		}
	}
	floats.Scale(1/sumOf(shares), shares)
	return shares
}

// leastCauseShare is the least share of the excess of a listed cause.
const leastCauseShare = 0.01

// causes adds up stages with the same cause. It joins the two ends if neither has more than twice the
// other's share.
func (of tailPasses) causes(stages []string, whole tailExcess, excess float64) []Cause {
	type group struct {
		Cause
		stages []int
	}
	var groups []group
	for i, name := range stages {
		kind, end := stageCause(name)
		if kind == "" {
			continue
		}
		same := lists.FindOrAdd(&groups, group{Cause: Cause{Kind: kind, End: end}}, func(g group) bool { return g.Kind == kind && g.End == end })
		same.stages = append(same.stages, i)
	}
	measure := func(g *group) {
		share, standardError := of.share(g.stages, whole)
		g.Share, g.Time, g.Error = share, share*excess, standardError*excess
	}
	for i := range groups {
		measure(&groups[i])
	}
	for i := range groups {
		a := &groups[i]
		for j := range groups[:i] {
			b := &groups[j]
			if a.Kind == b.Kind && min(a.Share, b.Share) >= max(a.Share, b.Share)/2 && min(a.Share, b.Share) > 0 {
				b.End, b.stages, a.stages, a.Share = "", slices.Concat(b.stages, a.stages), nil, 0
				measure(b)
			}
		}
	}
	groups = slices.DeleteFunc(groups, func(g group) bool { return g.Share < leastCauseShare })
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.Share, a.Share) })
	return lists.Map(groups, func(g group) Cause { return g.Cause })
}

const (
	leastDistances  = 6   // fewer distances between slow calls may be equal by chance
	regularShare    = 0.6 // share of the distances that must be near their median
	callTolerance   = 0.02
	periodTolerance = 0.1
)

// period returns the distance between slow calls in calls or in microseconds, if it is regular. Here a
// call is slow if it takes longer than the middle between the median and the slow calls.
func (of tailPasses) period() (calls *int, us *float64) {
	var inCalls, inTime []float64
	for _, p := range of {
		all := make([]int, len(p.life.Stages))
		for i := range all {
			all[i] = i
		}
		slowMean := p.mean(p.slow, all)
		limit := (slowMean + p.mean(p.median, all)) / 2
		var slow []int
		for call, time := range p.times {
			if float64(time)/1e3 > limit {
				slow = append(slow, call)
			}
		}
		inCalls = append(inCalls, distances(lists.Map(slow, func(call int) float64 { return float64(call) }))...)
		if len(p.life.Begins) == 0 {
			continue
		}
		begins := slices.Sorted(slices.Values(lists.Map(slow, func(call int) float64 { return float64(p.life.Begins[call]) / 1e3 })))
		// One pause may hit many calls in flight. They are one event.
		inTime = append(inTime, distances(slices.CompactFunc(begins, func(a, b float64) bool { return math.Abs(b-a) < slowMean }))...)
	}
	if every, regular := regularDistance(inCalls, callTolerance); regular && every >= 2 {
		return new(int(every)), nil
	}
	if every, regular := regularDistance(inTime, periodTolerance); regular {
		return nil, new(every)
	}
	return nil, nil
}

func distances(of []float64) (all []float64) {
	for i := 1; i < len(of); i++ {
		all = append(all, of[i]-of[i-1])
	}
	return all
}

// regularDistance returns the median distance, and whether most distances are near it.
func regularDistance(of []float64, tolerance float64) (every float64, regular bool) {
	every = stats.Median(of)
	near := 0
	for _, one := range of {
		if math.Abs(one-every) <= tolerance*every {
			near++
		}
	}
	return every, len(of) >= leastDistances && float64(near) >= regularShare*float64(len(of))
}
