package lab

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
)

// watchList returns each CPU once, with all processes that were placed on it. A process that a
// server has started counts as part of the server.
func watchList(at host.Placement, servers, clients []int) []probe.SentinelCPU {
	var list []probe.SentinelCPU
	add := func(cpus, pids []int) {
		for _, cpu := range cpus {
			i := slices.IndexFunc(list, func(s probe.SentinelCPU) bool { return s.CPU == cpu })
			if i < 0 {
				i = len(list)
				list = append(list, probe.SentinelCPU{CPU: cpu, CPUs: len(cpus)})
			}
			list[i].PIDs = append(list[i].PIDs, pids...)
		}
	}
	add(at.Server, servers)
	add(at.Client, clients)
	return list
}

// watched holds a sentinel's findings, and its own CPU time.
type watched struct {
	cpus []probe.SentinelResult
	cost time.Duration
}

// waitPeriod is the time between two readings of how long the ends of a trial alone waited for a CPU.
const waitPeriod = 100 * time.Millisecond

// watchWaits reads from now on how long client and server were ready but had no CPU.
func (b *block) watchWaits(m *member, servers []int) *probe.Readings {
	var last [2]uint64 // also of processes that have ended
	var said [2]bool
	return probe.StartReadings(len(last), waitPeriod*time.Duration(len(b.trials)), func(into []uint64) error {
		for end, pids := range [][]int{{m.client.PID()}, servers} {
			var sum uint64
			for _, pid := range pids {
				waited, known := probe.CPUWait(pid)
				sum, said[end] = sum+waited, said[end] || known
			}
			if last[end] = max(last[end], sum); !said[end] {
				return errors.ErrUnsupported
			}
		}
		copy(into, last[:])
		return nil
	})
}

// applyWaits records how long the ends waited for a CPU in the window.
func applyWaits(r *record.Record, waits *probe.Readings, w window) {
	if waits == nil || r.ClientProgram != "" {
		return
	}
	whole := probe.Span{BeginNS: w[0].beginNS, EndNS: w[len(w)-1].endNS}
	// On a machine that is very busy, wirelab itself may come late to its first reading.
	covered := waits.Covered(whole)
	share := float64(covered.EndNS-covered.BeginNS) / float64(whole.EndNS-whole.BeginNS)
	waited, err := waits.Between(covered)
	if err != nil || share < 0.5 {
		return
	}
	for i, p := range []*record.Process{&r.Client, &r.Server} {
		if _, measured := p.CPUNS(); measured {
			p.WaitedNS = new(int64(waited[i] / share))
		}
	}
}

// A span is a stretch of time, in nanoseconds of the monotonic clock.
type span struct{ beginNS, endNS int64 }

// within returns the part of a gap that lies in the span.
func (s span) within(gap probe.Gap) int64 {
	return min(gap.AtNS+gap.TookNS, s.endNS) - max(gap.AtNS, s.beginNS)
}

// window is the measured time: one span, or the slices.
type window []span

func windowOf(c *worker.ClientResult) window {
	if len(c.Slices) == 0 {
		return window{{c.BeginNS, c.EndNS}}
	}
	return lists.Map(c.Slices, func(s record.Slice) span {
		return span{c.BeginNS + s.AtNS, c.BeginNS + s.AtNS + s.TookNS}
	})
}

// measuredNS returns the length of all spans.
func (w window) measuredNS() (sum int64) {
	for _, s := range w {
		sum += s.endNS - s.beginNS
	}
	return sum
}

// applyGaps records the sentinels' findings about both ends in the window.
func applyGaps(r *record.Record, watched []probe.SentinelResult, w window) {
	if r.ClientProgram != "" { // the sentinels could not know that program's processes
		return
	}
	client, server := cpusOf(watched, r.Client.CPUs), cpusOf(watched, r.Server.CPUs)
	var why string
	for _, e := range []struct {
		gaps    **record.Gaps
		watched []probe.SentinelResult
	}{{&r.Client.Gaps, client}, {&r.Server.Gaps, server}} {
		if missing := w.whyUnwatched(e.watched); missing != "" {
			why = missing
			continue
		}
		*e.gaps = w.sumGaps(e.watched)
		w.addLost(r.Slices, e.watched)
	}
	if why != "" && r.Cell.Target == "" {
		r.Warnings = append(r.Warnings, "unknown whether other programs used the CPUs of both ends: "+why)
	}
}

func cpusOf(watched []probe.SentinelResult, cpus []int) []probe.SentinelResult {
	return slices.DeleteFunc(slices.Clone(watched), func(w probe.SentinelResult) bool { return !slices.Contains(cpus, w.CPU) })
}

// whyUnwatched returns the reason why an end's CPUs were not watched during the whole window. It
// returns "" if they were watched.
func (w window) whyUnwatched(watched []probe.SentinelResult) string {
	if len(watched) == 0 {
		return "the sentinels reported nothing"
	}
	for _, cpu := range watched {
		switch late, early := cpu.FromNS-w[0].beginNS, w[len(w)-1].endNS-cpu.ToNS; {
		case cpu.Wakings == 0:
			return cmp.Or(cpu.Problem, fmt.Sprintf("the sentinel of CPU %d never woke up", cpu.CPU))
		case late > 0:
			return fmt.Sprintf("the sentinel of CPU %d started %.3g ms after the window opened", cpu.CPU, float64(late)/1e6)
		case early > 0:
			return fmt.Sprintf("the sentinel of CPU %d ended %.3g ms before the window closed: %s", cpu.CPU, float64(early)/1e6, cpu.Problem)
		}
	}
	return ""
}

// sumGaps sums up the gaps of an end's CPUs.
func (w window) sumGaps(watched []probe.SentinelResult) *record.Gaps {
	sum := record.Gaps{CPUs: len(watched)}
	var byLength [65]record.GapLength // by the bits of their nanoseconds
	for _, cpu := range watched {
		perNS := float64(cpu.Wakings) / float64(cpu.ToNS-cpu.FromNS)
		sum.Wakings += int64(perNS * float64(w.measuredNS()))
		for _, gap := range cpu.Gaps {
			for _, s := range w {
				took := s.within(gap)
				if took <= 0 {
					continue
				}
				length := &byLength[bits.Len64(uint64(took))]
				length.Count++
				length.SumNS += took
				sum.LongestNS = max(sum.LongestNS, took)
			}
		}
	}
	for _, length := range byLength {
		if length.Count > 0 {
			sum.Lengths = append(sum.Lengths, length)
		}
	}
	return &sum
}

// addLost adds to each slice the time that an end's CPUs lost in it. The window has the same slices.
func (w window) addLost(to []record.Slice, watched []probe.SentinelResult) {
	for i := range to {
		to[i].LostNS += window{w[i]}.lostNS(watched)
	}
}

// lostNS returns the length of all gaps of the CPUs.
func (w window) lostNS(watched []probe.SentinelResult) (sum int64) {
	for _, length := range w.sumGaps(watched).Lengths {
		sum += length.SumNS
	}
	return sum
}
