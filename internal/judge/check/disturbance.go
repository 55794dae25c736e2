package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// sentinelSleepNS is the mean sleep of a sentinel. Sentinels meet every longer gap, and a
// share of the shorter ones that grows with the gap's length.
const sentinelSleepNS = 4e6

// gaps checks for how long others had the CPUs of an end when it was due on them.
func (t trial) gaps() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "nobody watched the CPUs of both ends"}
	if !t.watched() {
		return c
	}
	var stops []stop
	worst, away := end{}, -1.0
	for _, e := range t.ends() {
		stops = append(stops, t.stopsOf(e)...)
		if share := t.away(e); share > away {
			worst, away = e, share
		}
	}
	by := t.moved(stops...)
	c.Figure = &by.by
	verdict(&c, t.limits.Moved.level(by.by), "others had the %s's CPUs for %s of the time when it was due on them, for %s at most: %s",
		worst.name, percent(away), units.Time(float64(worst.Gaps.LongestNS)), by.words())
	return c
}

// stopsOf turns the gaps of an end into what they did to its requests.
func (t trial) stopsOf(e end) []stop {
	var stops []stop
	for _, length := range e.Gaps.Lengths {
		each := float64(length.SumNS) / float64(max(1, length.Count))
		count := float64(length.Count) * max(1, sentinelSleepNS/max(1, each)) // with those that were not met
		s := t.met(count/float64(max(1, e.Gaps.CPUs)), each)
		if each < sentinelSleepNS {
			// Nor does a request meet more of them than a sentinel does, each time that
			// it waits for a thread to run.
			share := float64(length.Count) / float64(max(1, e.Gaps.Wakings))
			s.touched = min(s.touched, share*t.turns(e))
		}
		if t.overrun(e) {
			s = stop{touched: 1, eachNS: math.Inf(1)}
		}
		stops = append(stops, s)
	}
	return stops
}

// overrun reports whether an open loop asked for more than gaps left: its requests wait for all of
// them.
func (t trial) overrun(e end) bool {
	const room = 0.05 // with less a queue takes longer to empty than to fill again
	return t.Pacing != nil && e.Busy != nil && *e.Busy+t.away(e) > 1-room
}

// turns returns how often a request waits for a thread of an end to run, at least once.
func (t trial) turns(e end) float64 {
	return max(1, float64(valueOf(e.SwitchesVol)+valueOf(e.SwitchesInv))/float64(max(1, t.Requests)))
}

// away returns the share of the window in which others had an end's CPUs when it was due.
func (t trial) away(e end) float64 {
	long, short := 0.0, 0.0
	for _, length := range e.Gaps.Lengths {
		if float64(length.SumNS) >= sentinelSleepNS*float64(length.Count) {
			long += float64(length.SumNS)
		} else {
			short += float64(length.Count)
		}
	}
	whole := float64(max(1, t.WindowNS)) * float64(max(1, e.Gaps.CPUs))
	return min(1, long/whole+short/float64(max(1, e.Gaps.Wakings)))
}

// pause checks whether both ends stood still at once, as when a hypervisor stops them.
func (t trial) pause() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "nobody watched both ends at once"}
	if t.only != "" {
		c.Level, c.Detail = record.OK, "does not apply: a fleet's ends are seen one by one"
		return c
	}
	if t.Host.BothStoppedNS == nil {
		return c
	}
	stopped := float64(*t.Host.BothStoppedNS)
	by := t.moved(t.met(1, stopped))
	c.Figure = &by.by
	verdict(&c, t.limits.Moved.level(by.by), "both ends stood still at once for %s at most: %s", units.Time(stopped), by.words())
	return c
}

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
	h, err := cmp.Or(t.Response, &t.Service).Decode() // the times that a reader looks at
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
	return max(valueOf(t.Client.Busy), valueOf(t.Server.Busy))
}

// neighbours checks how much CPU time other processes took.
func (t trial) neighbours() record.Check {
	bounds := t.limits.Others
	if t.watched() {
		// For how long they kept an end waiting is judged by itself. What is left are
		// caches, memory and clock frequency.
		bounds = Bounds{Warning: t.limits.Beside, Invalid: 1}
	}
	c := share("other processes took %s of the CPU time", t.Host.OthersShare, bounds)
	if t.Host.OthersShare != nil {
		c.Detail += t.byName(*t.Host.OthersShare)
	}
	if t.Cell.Target != "" && t.Host.OthersShare != nil && !t.Cell.Kind().Unplaced {
		c.Level = record.Unknown
		c.Detail += ", the server at " + t.Cell.Target + " among them if it is on this machine"
	}
	return c
}

// watched reports whether it is known for how long others kept each end waiting.
func (t trial) watched() bool {
	return !slices.ContainsFunc(t.ends(), func(e end) bool { return e.Gaps == nil })
}

// byName names the processes that took a tenth or more of what others took.
func (t trial) byName(others float64) string {
	const most = 3
	var names []string
	took := map[string]float64{}
	for _, n := range t.Host.Neighbours {
		names = lists.AppendNew(names, n.Name)
		took[n.Name] += n.Share
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(took[b], took[a]) })
	words := ""
	for _, name := range names[:min(most, len(names))] {
		if took[name] >= others/10 {
			words += fmt.Sprintf(", %s %s", name, percent(took[name]))
		}
	}
	return words
}

// stolenCPU checks how much CPU time the hypervisor gave to other guests.
func (t trial) stolenCPU() record.Check {
	return share("the hypervisor gave %s of the CPU time to others", t.Host.StolenShare, t.limits.Stolen)
}

// noise checks which share of its CPUs a worker lost while it only spun.
func (t trial) noise() record.Check {
	lost := t.Host.LostBefore
	if after := t.Host.LostAfter; lost == nil || after != nil && *after > *lost {
		lost = after
	}
	bounds := t.limits.Lost
	if t.watched() { // then what happened in the window is known, and this was outside it
		bounds.Invalid = 1
	}
	return share("a worker that only spun, before or after, lost %s of its CPU to others", lost, bounds)
}

// share checks a share of CPU time that went to others.
func share(words string, figure *float64, bounds Bounds) record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &bounds.Invalid, Detail: "not known on this machine"}
	if figure == nil {
		return c
	}
	c.Figure = figure
	verdict(&c, bounds.level(*figure), words, percent(*figure))
	return c
}
