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

// checkGaps checks how long other programs kept an end off its CPUs while it wanted to run. The kernel
// says how long its threads waited, which bounds the shift of the mean. Sentinels, which sleep and wake,
// say how long single gaps were, which bounds the shift of P99.
func (t trial) checkGaps() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "nothing watched the CPUs of both ends for other programs"}
	lost, known := t.waitedShare()
	if known {
		by := shift{"the mean", slowdown(lost)}
		c.Figure = &by.by
		setVerdict(&c, t.limits.Moved.level(by.by), "threads of client and server were ready but had no CPU for %s of the calls' time, because other programs ran: %s", percentText(lost), by.describe())
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
	if known && by.by < *c.Figure {
		return c
	}
	c.Figure = &by.by
	setVerdict(&c, t.limits.Moved.level(by.by), "other programs kept the %s off its CPUs for %s of the time, each time for at most %s: %s",
		worst.name, percentText(away), units.Time(float64(worst.Gaps.LongestNS)), by.describe())
	return c
}

// waitedShare returns the share of the calls' time in which a thread of an end was ready to run but had
// no CPU. Threads of one end wait for each other, too, so it counts no more time than other programs
// used, and no more than the end's own threads left to others on its CPUs.
func (t trial) waitedShare() (share float64, known bool) {
	atWork := t.AtWorkNS()
	if t.Client.WaitedNS == nil || t.Server.WaitedNS == nil || t.Host.OthersCPUs == nil || atWork <= 0 || t.InFlight <= 0 {
		return 0, false
	}
	for _, e := range t.ends() {
		cpus := float64(max(1, len(e.CPUs)))
		left := cpus
		if e.Busy != nil {
			left *= 1 - min(1, *e.Busy)
		}
		share += min(float64(*e.WaitedNS)/atWork, *t.Host.OthersCPUs, left) / cpus
	}
	return min(1, share, *t.Host.OthersCPUs) / min(1, t.InFlight), true
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

// checkPause checks whether both ends stood still at once, as when a hypervisor pauses a guest.
func (t trial) checkPause() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "nothing watched both ends at the same time"}
	if t.only != "" {
		c.Level, c.Detail = record.OK, "does not apply: the ends of a fleet run on different machines"
		return c
	}
	if t.Host.BothStoppedNS == nil {
		return c
	}
	stopped := float64(*t.Host.BothStoppedNS)
	by := t.boundShift(t.newStop(1, stopped))
	c.Figure = &by.by
	setVerdict(&c, t.limits.Moved.level(by.by), "both ends stood still at the same time, for at most %s: %s", units.Time(stopped), by.describe())
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

func (s shift) describe() string {
	if s.by < 0.01 {
		return "this changes the mean and P99 by less than 1 %"
	}
	return fmt.Sprintf("%s may be up to %.3g times its undisturbed value", s.figure, 1+s.by)
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

// newStop computes the share of requests that are delayed by a number of equally long stops. In a
// closed loop, a stop delays the requests in flight. In an open loop, it also delays the requests
// that are due until the busier end has caught up.
func (t trial) newStop(count, eachNS float64) stop {
	touched := count * max(1, t.InFlight) / float64(max(1, t.Requests))
	if t.Pacing != nil {
		const maxBusy = 0.9 // busier ends never empty their queue; see checkOverload
		touched += count * eachNS / float64(max(1, t.WindowNS)) / (1 - min(maxBusy, t.busierEndShare()))
	}
	return stop{touched: min(1, touched), eachNS: eachNS}
}

func (t trial) busierEndShare() float64 {
	return max(valueOrZero(t.Client.Busy), valueOrZero(t.Server.Busy))
}

// checkNeighbours checks how much CPU time other processes took.
func (t trial) checkNeighbours() record.Check {
	bounds := t.limits.Others
	if t.isWatched() {
		// The check gaps judges lost CPU time. Other programs also use caches and memory.
		bounds = Bounds{Warning: t.limits.Beside, Invalid: 1}
	}
	c := checkCPUShare("other processes took %s of the CPU time", t.Host.OthersShare, bounds)
	if t.Host.OthersShare != nil {
		c.Detail += t.nameNeighbours(*t.Host.OthersShare)
	}
	if c.Level != record.OK && len(t.Host.Neighbours) > 0 && t.isServedHere() {
		c.Detail += fmt.Sprintf("; if %s belongs to your service, add --also with its PID or port", t.Host.Neighbours[0].Name)
	}
	if t.Cell.Target != "" && t.Host.OthersShare != nil && !t.Cell.Kind().Unplaced {
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

// isWatched reports whether something shows how long other programs kept the ends off their CPUs.
func (t trial) isWatched() bool {
	_, known := t.waitedShare()
	return known || t.hasGaps()
}

func (t trial) hasGaps() bool {
	return !slices.ContainsFunc(t.ends(), func(e end) bool { return e.Gaps == nil })
}

// nameNeighbours names the processes that took at least a tenth of the other programs' CPU time.
func (t trial) nameNeighbours(others float64) string {
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
			words += fmt.Sprintf(", %s %s", name, percentText(took[name]))
		}
	}
	return words
}

// checkStolenCPU checks how much CPU time the hypervisor gave to other guests.
func (t trial) checkStolenCPU() record.Check {
	return checkCPUShare("the hypervisor gave %s of the CPU time to other machines", t.Host.StolenShare, t.limits.Stolen)
}

// checkNoise checks how much CPU time a worker lost in a busy loop, before and after the trial. This says
// little about the window, so it is no more than a warning.
func (t trial) checkNoise() record.Check {
	if t.Block != 0 {
		return record.Check{Level: record.OK, Detail: "does not apply: a busy loop would take CPUs from the other trials of the block"}
	}
	lost := t.Host.LostBefore
	if after := t.Host.LostAfter; lost == nil || after != nil && *after > *lost {
		lost = after
	}
	return checkCPUShare("a worker in a busy loop lost %s of its CPU to other programs, before or after the trial", lost, t.limits.Lost)
}

// checkCPUShare checks a share of CPU time that other programs used.
func checkCPUShare(words string, figure *float64, bounds Bounds) record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &bounds.Invalid, Detail: "this machine does not report the figure"}
	if figure == nil {
		return c
	}
	c.Figure = figure
	setVerdict(&c, bounds.level(*figure), words, percentText(*figure))
	return c
}
