package check

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// sentinelSleepNS is the mean sleep of a sentinel, the thread that looks for gaps. A sentinel
// finds every longer gap. It finds a shorter gap with a probability that grows with its length.
const sentinelSleepNS = 4e6

// checkGaps bounds how far other programs shifted the mean or P99 by keeping an end off its CPUs. The
// kernel reports how long threads waited for a CPU, which bounds the shift of the mean. Sentinels, which
// sleep and wake, report how long single gaps were, which bounds the shift of P99. They see pauses of the
// whole machine, too.
func (t trial) checkGaps() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "nothing watched the CPUs of both ends for other programs"}
	bound, perCall, known := t.boundByWaits()
	if known {
		by := shift{"the mean", bound}
		c.Figure = &by.by
		setVerdict(&c, t.limits.Moved.level(by.by), "threads of client and server waited for a CPU for %s per call, because other programs ran: %s", units.Time(perCall), by.describe())
	}
	if !t.hasGaps() {
		return c
	}
	var stops []stop
	worst, away := end{}, -1.0
	for _, e := range t.ends() {
		stops = append(stops, t.stopsOf(e)...)
		if share := t.lostCPUShare(e); share > away {
			worst, away = e, share
		}
	}
	by := t.boundShift(stops...)
	if known && by.by < bound {
		return c
	}
	c.Figure = &by.by
	setVerdict(&c, t.limits.Moved.level(by.by), "other programs kept the %s off its CPUs for %s of the time, each time for at most %s: %s",
		worst.name, units.Percent(away), units.Time(float64(worst.Gaps.LongestNS)), by.describe())
	return c
}

const (
	// A queue of calls for an end is sometimes empty if its threads want a CPU for less than this share
	// of the time. Then some calls meet neither a queue nor a wait.
	maxWanted = 0.9
	// leastCallsForFastest is the number of calls from which some call met no wait.
	leastCallsForFastest = 100
)

// boundByWaits bounds the shift of the mean by how long threads of the ends were ready to run but had no
// CPU. Threads of one end wait for each other, too, and for work outside of calls. So three bounds meet:
//
//   - The largest shift is that each wait delays all calls in flight. Of the waits, it counts no more than
//     other programs used, and no more than the end's own threads left free. The threads that run
//     meanwhile serve their part of the calls.
//   - The smallest shift is that each wait delays one call.
//   - Without waits, the mean is at least the time of the fastest call, if no queue hides the waits.
//
// The bound lies between the first two, as near to the third as possible. perCallNS is the wait of all
// threads per call.
func (t trial) boundByWaits() (by, perCallNS float64, known bool) {
	h, err := t.decode(cmp.Or(t.Response, &t.Service))
	if err != nil || h.Count() == 0 || t.Host.OthersCPUs == nil || t.WindowNS <= 0 || t.InFlight <= 0 ||
		slices.ContainsFunc(t.ends(), func(e end) bool { return e.WaitedNS == nil }) {
		return 0, 0, false
	}
	atWork := t.AtWorkNS()
	others := *t.Host.OthersCPUs // a mean over the whole trial
	if t.hasGaps() {
		inWindow := 0.0
		for _, e := range t.ends() {
			inWindow += t.lostCPUShare(e) * float64(e.Gaps.CPUs)
		}
		others = max(others, inWindow)
	}
	most, least, queued := 0.0, 0.0, h.Count() < leastCallsForFastest
	for _, e := range t.ends() {
		waited := float64(*e.WaitedNS) / atWork
		taken := min(waited, others)
		if e.Busy != nil {
			taken = min(taken, float64(max(1, len(e.CPUs)))*(1-min(1, *e.Busy)))
		}
		cpu, _ := e.CPUNS()
		wanted := float64(cpu)/atWork + taken
		// Other programs take no larger share of a call than of the whole time, unless they follow the calls.
		most += min(taken/min(1, t.InFlight), others) / max(1, min(wanted, t.InFlight))
		least += waited / t.InFlight
		queued = queued || wanted > maxWanted
	}
	most = min(most, others)
	if t.Pacing != nil { // requests that come meanwhile wait, too
		most /= 1 - min(maxBusy, t.busierEndShare())
	}
	bound, mean := slowdown(most), float64(h.Mean())
	if fastest := float64(max(1, h.Min())); !queued {
		bound = min(bound, max(slowdown(least), mean/fastest-1))
	}
	return bound, least * mean, true
}

// stopsOf converts the gaps of an end into stops, which delay its requests.
func (t trial) stopsOf(e end) []stop {
	var stops []stop
	for _, length := range e.Gaps.Lengths {
		each := float64(length.SumNS) / float64(max(1, length.Count))
		count := float64(length.Count) * max(1, sentinelSleepNS/max(1, each)) // includes gaps that no sentinel noticed
		s := t.newStop(count/float64(max(1, e.Gaps.CPUs)), each)
		if each < sentinelSleepNS {
			// Each time that a request waits for a thread, it meets a gap no more often than a
			// sentinel does.
			share := float64(length.Count) / float64(max(1, e.Gaps.Wakings))
			s.touched = min(s.touched, share*t.threadWaits(e))
		}
		if t.isOverrun(e) {
			s = stop{touched: 1, eachNS: math.Inf(1)}
		}
		stops = append(stops, s)
	}
	return stops
}

// isOverrun reports whether an end of an open loop needed more CPU time than other programs left to
// it. Then every gap delays all later requests.
func (t trial) isOverrun(e end) bool {
	const room = 0.05 // share of the window that must stay free, or the queue grows
	return t.Pacing != nil && e.Busy != nil && *e.Busy+t.lostCPUShare(e) > 1-room
}

// threadWaits returns how often a request waits for a thread of an end, at least once.
func (t trial) threadWaits(e end) float64 {
	return max(1, float64(valueOrZero(e.SwitchesVol)+valueOrZero(e.SwitchesInv))/float64(max(1, t.Requests)))
}

// lostCPUShare returns the share of the window in which other programs kept an end off its CPUs.
func (t trial) lostCPUShare(e end) float64 {
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

func (s shift) describe() string {
	if s.by < 0.01 {
		return "this changes the mean and P99 by less than 1 %"
	}
	return fmt.Sprintf("%s may be up to %s times its undisturbed value", s.figure, units.Number(1+s.by))
}

// boundShift returns the largest effect that stops may have on the mean and P99. It uses only the
// trial's own latencies:
//
//   - A stop delays only the requests under way during it. So P99 without stops is at least the
//     percentile that remains after removing as many of the slowest requests as stops delayed.
//   - A stop delays a request by at most its own length. So P99 without the stop is at least
//     P99 minus this length, and the mean falls by at most this length times the share of delayed
//     requests.
//
// With stops of several lengths, the first rule applies to the longest stops, and the second rule
// to all other stops. boundShift divides the stops so that P99 becomes largest.
func (t trial) boundShift(stops ...stop) shift {
	h, err := t.decode(cmp.Or(t.Response, &t.Service)) // the times that reports show
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

// maxBusy is the largest busy share of an end whose queue empties; see checkOverload.
const maxBusy = 0.9

// newStop computes the share of requests that are delayed by a number of equally long stops. In a
// closed loop, a stop delays the requests in flight. In an open loop, it also delays the requests
// that are due until the busier end has caught up.
func (t trial) newStop(count, eachNS float64) stop {
	touched := count * max(1, t.InFlight) / float64(max(1, t.Requests))
	if t.Pacing != nil {
		touched += count * eachNS / float64(max(1, t.WindowNS)) / (1 - min(maxBusy, t.busierEndShare()))
	}
	return stop{touched: min(1, touched), eachNS: eachNS}
}

func (t trial) busierEndShare() float64 {
	return max(valueOrZero(t.Client.Busy), valueOrZero(t.Server.Busy))
}

// checkNeighbours checks how much CPU time other processes and other virtual machines took.
func (t trial) checkNeighbours() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Others.Invalid, Detail: "this machine does not report the CPU time of other programs"}
	if t.Host.OthersShare == nil {
		return c
	}
	bounds := t.limits.Others
	if _, _, known := t.boundByWaits(); known || t.hasGaps() {
		// The check gaps judges lost CPU time. Other programs also use caches and memory.
		bounds = Bounds{Warning: t.limits.Beside, Invalid: 1}
	}
	taken := t.Host.TakenByOthers()
	c.Figure, c.Limit = &taken, &bounds.Invalid
	setVerdict(&c, bounds.level(taken), "other programs took %s of the CPU time%s", units.Percent(taken), t.nameNeighbours(taken))
	if stolen := valueOrZero(t.Host.StolenShare); stolen > t.limits.Stolen && !t.hasGaps() { // threads do not notice stolen time
		c.Figure, c.Limit, c.Level = &stolen, &t.limits.Stolen, record.Invalid
	}
	if own := t.Host.Neighbours; c.Level != record.OK && len(own) > 0 && t.isServedHere() {
		c.Detail += fmt.Sprintf("; if %s belongs to your service, add --also with its PID or port", own[0].Name)
	}
	if t.Record.ServerMayBeOther() {
		c.Level = record.Unknown
		c.Detail += "; this includes the server at " + t.Cell.Target + " if it runs on this machine"
	}
	return c
}

// isServedHere reports whether the trial measured a user's service on this machine.
func (t trial) isServedHere() bool {
	_, known := t.Server.CPUNS()
	at, _ := netip.ParseAddrPort(t.Cell.Target) // fails for a unix socket
	return t.Cell.Kind().Unplaced && (known || at.Addr().IsLoopback())
}

func (t trial) hasGaps() bool {
	return !slices.ContainsFunc(t.ends(), func(e end) bool { return e.Gaps == nil })
}

// nameNeighbours names the processes that took at least a tenth of the other programs' CPU time.
func (t trial) nameNeighbours(others float64) string {
	const most = 3
	var names []string
	took := map[string]float64{}
	for _, n := range t.Host.Takers() {
		names = lists.AppendNew(names, n.Name)
		took[n.Name] += n.Share
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(took[b], took[a]) })
	words := ""
	for _, name := range names[:min(most, len(names))] {
		if took[name] >= others/10 {
			words += fmt.Sprintf(", %s %s", name, units.Percent(took[name]))
		}
	}
	return words
}
