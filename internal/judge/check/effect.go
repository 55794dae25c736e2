package check

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/base/latency"
)

// A stop counts times of about one length in which an end of the wire could not run.
type stop struct {
	// touched is the share of the requests that one of them delayed.
	touched float64
	eachNS  float64
}

// A shift is the relative change of a figure that a disturbance may have caused.
type shift struct {
	figure string
	by     float64
}

// words say it in a sentence.
func (s shift) words() string {
	if s.by < 0.01 {
		return "no figure is moved by a hundredth"
	}
	return fmt.Sprintf("%s may be up to %.3g times what it would be without", s.figure, 1+s.by)
}

// moved bounds what stops did to the mean and to P99, and returns the larger shift. It is
// a bound from the trial's own latencies, without a model of them:
//
//   - Only requests that were under way during a stop are touched. At most the touched
//     share of the requests is slower than it would be, so P99 without stops is at least
//     the percentile that is left when the slowest requests, as many as were touched, go.
//   - Nothing is delayed by more than the stop took, so it is also at least P99 less that,
//     and the mean is at least the mean less that times the touched share.
//
// Where stops are of many lengths, the longer ones count as in the first and the others
// as in the second, cut where it says most.
func (t trial) moved(stops ...stop) shift {
	h, err := t.latencies().Decode()
	if err != nil || h.Count() == 0 {
		return shift{figure: "the mean"}
	}
	stops = slices.Clone(stops)
	slices.SortFunc(stops, func(a, b stop) int { return cmp.Compare(b.eachNS, a.eachNS) })
	mean, p99, least := float64(h.Mean()), float64(h.Quantile(0.99)), float64(max(1, h.Min()))
	meanAtLeast, p99AtLeast, touched := mean, least, 0.0
	for _, s := range stops {
		p99AtLeast = max(p99AtLeast, float64(h.Quantile(max(0, 0.99-touched)))-s.eachNS)
		touched += min(1, s.touched)
		meanAtLeast -= min(1, s.touched) * s.eachNS
	}
	p99AtLeast = max(p99AtLeast, float64(h.Quantile(max(0, 0.99-touched))))
	ofMean := shift{"the mean", mean/max(least, meanAtLeast) - 1}
	if ofP99 := (shift{"P99", max(0, p99/p99AtLeast-1)}); ofP99.by > ofMean.by {
		return ofP99
	}
	return ofMean
}

// latencies returns the times that a reader looks at: from the intended send if it differs.
func (t trial) latencies() latency.Distribution {
	if t.Response != nil {
		return *t.Response
	}
	return t.Service
}

// met returns which share of the requests met a number of stops of an end, each of that
// length. In a closed loop a stop touches the requests in flight when it begins, since no client sends another before its answer.
// In an open loop those come in addition that were to be sent during a stop, and those
// that queued behind them until the busier end had caught up.
func (t trial) met(count, eachNS float64) stop {
	touched := count * max(1, t.InFlight) / float64(max(1, t.Requests))
	if t.Pacing != nil {
		const mostBusy = 0.9 // beyond it the queue never empties, which is another check's
		touched += count * eachNS / float64(max(1, t.WindowNS)) / (1 - min(mostBusy, t.busier()))
	}
	return stop{touched: min(1, touched), eachNS: eachNS}
}

// busier returns the share of its CPUs that the busier end used.
func (t trial) busier() float64 {
	busy := 0.0
	for _, end := range []*float64{t.Client.Busy, t.Server.Busy} {
		if end != nil {
			busy = max(busy, *end)
		}
	}
	return busy
}
