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

// sentinelSleepNS is the mean sleep of a sentinel. Sentinels meet every longer gap, and meet
// shorter gaps with a probability that grows with their length.
const sentinelSleepNS = 4e6

// gaps checks how long other programs kept an end off its CPUs while it wanted to run.
func (t trial) gaps() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "the CPUs of both ends were not watched"}
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
	verdict(&c, t.limits.Moved.level(by.by), "other programs kept the %s off its CPUs for %s of the time, for %s at most at once: %s",
		worst.name, percent(away), units.Time(float64(worst.Gaps.LongestNS)), by.words())
	return c
}

// stopsOf converts the gaps of an end into stops of its requests.
func (t trial) stopsOf(e end) []stop {
	var stops []stop
	for _, length := range e.Gaps.Lengths {
		each := float64(length.SumNS) / float64(max(1, length.Count))
		count := float64(length.Count) * max(1, sentinelSleepNS/max(1, each)) // including gaps that no sentinel met
		s := t.met(count/float64(max(1, e.Gaps.CPUs)), each)
		if each < sentinelSleepNS {
			// A request also meets no more gaps than a sentinel, each time that it waits for a
			// thread.
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

// overrun reports whether an open loop needed more CPU time than the gaps left. Then its requests
// wait for all gaps.
func (t trial) overrun(e end) bool {
	const room = 0.05 // with less room a queue fills faster than it empties
	return t.Pacing != nil && e.Busy != nil && *e.Busy+t.away(e) > 1-room
}

// turns returns how often a request waits for a thread of an end, at least once.
func (t trial) turns(e end) float64 {
	return max(1, float64(valueOf(e.SwitchesVol)+valueOf(e.SwitchesInv))/float64(max(1, t.Requests)))
}

// away returns the share of the window in which other programs kept an end off its CPUs.
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

// pause checks whether both ends stopped at the same time, as under a hypervisor.
func (t trial) pause() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "both ends were not watched at the same time"}
	if t.only != "" {
		c.Level, c.Detail = record.OK, "does not apply: a fleet's ends are judged one by one"
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

// A stop counts times of similar length in which an end could not run.
type stop struct {
	// touched is the share of requests that one stop delayed.
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
		return "no figure changes by 1 %"
	}
	return fmt.Sprintf("%s may be up to %.3g times its undisturbed value", s.figure, 1+s.by)
}

// moved bounds the effect of stops on the mean and P99, and returns the larger shift. The bound
// uses only the trial's own latencies, without a model:
//
//   - Only requests that were under way during a stop are touched. At most the touched
//     share of the requests is slower than it would be, so P99 without stops is at least
//     the percentile that is left when the slowest requests, as many as were touched, go.
//   - Nothing is delayed by more than the stop took, so it is also at least P99 less that,
//     and the mean is at least the mean less that times the touched share.
//
// With stops of many lengths, the longer ones use the first rule and the others the second,
// divided where the bound is largest.
func (t trial) moved(stops ...stop) shift {
	h, err := cmp.Or(t.Response, &t.Service).Decode() // the times that reports show
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

// met returns the share of requests that met a number of equally long stops of an end. In a closed
// loop a stop touches the requests in flight when it begins, because clients wait for answers. An
// open loop adds the requests due during a stop, and those that queued until the busier end had
// caught up.
func (t trial) met(count, eachNS float64) stop {
	touched := count * max(1, t.InFlight) / float64(max(1, t.Requests))
	if t.Pacing != nil {
		const mostBusy = 0.9 // beyond it the queue never empties; the check overload finds that
		touched += count * eachNS / float64(max(1, t.WindowNS)) / (1 - min(mostBusy, t.busier()))
	}
	return stop{touched: min(1, touched), eachNS: eachNS}
}

// busier returns the CPU share that the busier end used.
func (t trial) busier() float64 {
	return max(valueOf(t.Client.Busy), valueOf(t.Server.Busy))
}

// neighbours checks how much CPU time other processes took.
func (t trial) neighbours() record.Check {
	bounds := t.limits.Others
	if t.watched() {
		// The gaps have their own check. Caches, memory and clock frequency remain.
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

// watched reports whether the gaps of each end are known.
func (t trial) watched() bool {
	return !slices.ContainsFunc(t.ends(), func(e end) bool { return e.Gaps == nil })
}

// byName names the processes that took at least a tenth of the other programs' CPU time.
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

// noise checks the share of its CPUs that a worker lost while it only spun.
func (t trial) noise() record.Check {
	lost := t.Host.LostBefore
	if after := t.Host.LostAfter; lost == nil || after != nil && *after > *lost {
		lost = after
	}
	bounds := t.limits.Lost
	if t.watched() { // the window has better figures; this is from outside of it
		bounds.Invalid = 1
	}
	return share("a worker that only spun, before or after, lost %s of its CPU to others", lost, bounds)
}

// share checks a share of CPU time that went to others.
func share(words string, figure *float64, bounds Bounds) record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &bounds.Invalid, Detail: "unknown on this machine"}
	if figure == nil {
		return c
	}
	c.Figure = figure
	verdict(&c, bounds.level(*figure), words, percent(*figure))
	return c
}
