package lab

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/run/worker"
)

// startWatch starts the trial's probe, if it observes from outside.
func (t *trial) startWatch() error {
	name := string(t.planned.Cell.Probe)
	if !probes.RunsOutsideWorker(name) {
		return nil
	}
	watch, err := probes.Start(name)
	if errors.Is(err, probes.ErrOnlyInWorker) {
		t.inWorker = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("probe %s: %w", name, err)
	}
	t.watch = watch
	return nil
}

// watchProcess makes the probe observe the process of an end.
func (t *trial) watchProcess(end probe.End, pid int) error {
	if t.watch == nil {
		return nil
	}
	return t.watch.SetProcess(end, pid)
}

// watchPort passes the server's port to the probe, if the probe uses ports.
func (t *trial) watchPort(s *server) error {
	if watch, wants := t.watch.(probe.PortWatch); wants {
		return watch.SetServerPort(s.port())
	}
	return nil
}

// recordFindings ends the probe, and records what it found in the window.
func (t *trial) recordFindings(r *record.Record, server *server, serving worker.ServerResult, client *worker.ClientResult) {
	if t.inWorker != nil {
		r.Server.Seen, r.Client.Seen = t.workerFindings(serving.CPU), t.workerFindings(client.CPU)
		return
	}
	if t.watch == nil {
		return
	}
	window := probe.MeasuredWindow{
		Span:  probe.Span{BeginNS: client.BeginNS, EndNS: client.EndNS},
		Calls: client.Calls, Handled: serving.Handled, Port: server.port(),
	}
	findings, err := t.watch.Stop(window)
	t.watch = nil
	if err != nil {
		r.Warnings = append(r.Warnings, "the probe "+r.Probe+" has no findings: "+err.Error())
		return
	}
	r.Server.Seen, r.Client.Seen, r.Life = nilIfUnobserved(findings.Server), nilIfUnobserved(findings.Client), findings.Life
}

// workerFindings returns a worker's findings about itself, which may be nil.
func (t *trial) workerFindings(stacks *record.Stacks) *record.Seen {
	if stacks == nil {
		return &record.Seen{Missing: []string{fmt.Sprintf("all findings: %v", t.inWorker)}}
	}
	coverage := probes.WorkerCoverage(t.inWorker)
	return &record.Seen{Method: coverage.Method, Missing: coverage.Missing, Stacks: stacks}
}

// nilIfUnobserved returns nil for an end that was not observed.
func nilIfUnobserved(s record.Seen) *record.Seen {
	if s.Method == "" && len(s.Missing) == 0 {
		return nil
	}
	return &s
}

// stopWatch ends the probe of a trial that failed.
func (t *trial) stopWatch() {
	if t.watch != nil {
		_, _ = t.watch.Stop(probe.MeasuredWindow{})
	}
}

// startSentinel starts a process that watches the CPUs of both ends. It has the workers' priority
// and its own session, so it waits for a CPU whenever a worker would.
func (t *trial) startSentinel(server, client worker.TrialEnd) *worker.Sentinel {
	if t.lab.Unwatched || server == nil || len(t.lab.Placement.Server) == 0 || len(t.lab.Placement.Client) == 0 {
		return nil
	}
	in := host.StartOptions{CPUs: append(slices.Clone(t.lab.Placement.Server), t.lab.Placement.Client...), Nice: t.lab.Nice}
	return worker.StartSentinel(t.lab.Worker, in, t.watchList(server.PID(), client.PID()))
}

// watchList returns each CPU once, with all processes that were placed on this CPU. Processes that
// the server has started count as part of the server.
func (t *trial) watchList(server, client int) []probe.SentinelCPU {
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
	add(t.lab.Placement.Server, host.ReadProcessTable().Family(server))
	add(t.lab.Placement.Client, []int{client})
	return list
}

// sentinelFindings holds a sentinel's findings, and its own CPU time.
type sentinelFindings struct {
	cpus []probe.SentinelResult
	cost time.Duration
}

// measuredWindow is the measured time, in nanoseconds of the monotonic clock.
type measuredWindow struct{ beginNS, endNS int64 }

// applyGaps records the sentinels' findings about both ends in the window.
func applyGaps(r *record.Record, watched []probe.SentinelResult, w measuredWindow) {
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
	}
	if why != "" && r.Cell.Target == "" {
		r.Warnings = append(r.Warnings, "unknown whether other programs used the CPUs of both ends: "+why)
	}
	if r.Client.Gaps == nil || r.Server.Gaps == nil || client[0].CPU == server[0].CPU {
		return
	}
	r.Host.BothStoppedNS = new(longestCommonStop(client, server, w))
}

func cpusOf(watched []probe.SentinelResult, cpus []int) []probe.SentinelResult {
	return slices.DeleteFunc(slices.Clone(watched), func(w probe.SentinelResult) bool { return !slices.Contains(cpus, w.CPU) })
}

// whyUnwatched returns the reason why an end's CPUs were not watched during the whole window. It
// returns "" if they were watched.
func (w measuredWindow) whyUnwatched(watched []probe.SentinelResult) string {
	if len(watched) == 0 {
		return "the sentinels reported nothing"
	}
	for _, cpu := range watched {
		switch late, early := cpu.FromNS-w.beginNS, w.endNS-cpu.ToNS; {
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
func (w measuredWindow) sumGaps(watched []probe.SentinelResult) *record.Gaps {
	sum := record.Gaps{CPUs: len(watched)}
	var byLength [65]record.GapLength // by the bits of their nanoseconds
	for _, cpu := range watched {
		perNS := float64(cpu.Wakings) / float64(cpu.ToNS-cpu.FromNS)
		sum.Wakings += int64(perNS * float64(w.endNS-w.beginNS))
		for _, gap := range cpu.Gaps {
			took := w.timeInWindow(gap)
			if took <= 0 {
				continue
			}
			length := &byLength[bits.Len64(uint64(took))]
			length.Count++
			length.SumNS += took
			sum.LongestNS = max(sum.LongestNS, took)
		}
	}
	for _, length := range byLength {
		if length.Count > 0 {
			sum.Lengths = append(sum.Lengths, length)
		}
	}
	return &sum
}

// timeInWindow returns the part of a gap that lies in the window.
func (w measuredWindow) timeInWindow(gap probe.Gap) int64 {
	return min(gap.AtNS+gap.TookNS, w.endNS) - max(gap.AtNS, w.beginNS)
}

// longestCommonStop returns the longest time in which neither end could run.
func longestCommonStop(client, server []probe.SentinelResult, w measuredWindow) int64 {
	longest := int64(0)
	for _, c := range client {
		for _, s := range server {
			for _, gap := range c.Gaps {
				part := measuredWindow{max(gap.AtNS, w.beginNS), min(gap.AtNS+gap.TookNS, w.endNS)}
				first, _ := slices.BinarySearchFunc(s.Gaps, part.beginNS, func(g probe.Gap, at int64) int { return int(min(1, max(-1, g.AtNS+g.TookNS-at))) })
				for _, other := range s.Gaps[first:] {
					if other.AtNS >= part.endNS {
						break
					}
					longest = max(longest, part.timeInWindow(other))
				}
			}
		}
	}
	return longest
}
