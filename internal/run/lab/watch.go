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
	if !probes.IsOutside(name) {
		return nil
	}
	watch, err := probes.Start(name)
	if errors.Is(err, probes.ErrInWorker) {
		t.inWorker = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("probe %s: %w", name, err)
	}
	t.watch = watch
	return nil
}

// watchProcess gives the probe the process of an end.
func (t *trial) watchProcess(end probe.End, pid int) error {
	if t.watch == nil {
		return nil
	}
	return t.watch.Process(end, pid)
}

// watchPort gives the probe the port of the server, if the probe uses it.
func (t *trial) watchPort(s *server) error {
	if watch, wants := t.watch.(probe.PortWatch); wants {
		return watch.Listens(s.port())
	}
	return nil
}

// see ends the probe, and fills in its findings in the window.
func (t *trial) see(r *record.Record, server *server, serving worker.ServerResult, client *worker.ClientResult) {
	if t.inWorker != nil {
		r.Server.Seen, r.Client.Seen = t.seenInWorker(serving.CPU), t.seenInWorker(client.CPU)
		return
	}
	if t.watch == nil {
		return
	}
	window := probe.Measured{
		Span:  probe.Span{BeginNS: client.BeginNS, EndNS: client.EndNS},
		Calls: client.Calls, Handled: serving.Handled, Port: server.port(),
	}
	findings, err := t.watch.Stop(window)
	t.watch = nil
	if err != nil {
		r.Warnings = append(r.Warnings, "the probe "+r.Probe+" saw nothing: "+err.Error())
		return
	}
	r.Server.Seen, r.Client.Seen, r.Life = seen(findings.Server), seen(findings.Client), findings.Life
}

// seenInWorker returns a worker's findings about itself, which may be nil.
func (t *trial) seenInWorker(stacks *record.Stacks) *record.Seen {
	if stacks == nil {
		return &record.Seen{Missing: []string{fmt.Sprintf("all: %v", t.inWorker)}}
	}
	coverage := probes.InWorker(t.inWorker)
	return &record.Seen{Method: coverage.Method, Missing: coverage.Missing, Stacks: stacks}
}

// seen returns nil for an end that was not observed.
func seen(s record.Seen) *record.Seen {
	if s.Method == "" && len(s.Missing) == 0 {
		return nil
	}
	return &s
}

// stopWatch ends the probe of a trial that failed.
func (t *trial) stopWatch() {
	if t.watch != nil {
		_, _ = t.watch.Stop(probe.Measured{})
	}
}

// startSentinel watches the CPUs of the placement. The sentinel has the workers' priority and a
// session of its own, so that it waits for a CPU whenever they would.
func (t *trial) startSentinel(server, client worker.End) *worker.Sentinel {
	if t.lab.Unwatched || server == nil || len(t.lab.Placement.Server) == 0 || len(t.lab.Placement.Client) == 0 {
		return nil
	}
	in := host.Surroundings{CPUs: append(slices.Clone(t.lab.Placement.Server), t.lab.Placement.Client...), Nice: t.lab.Nice}
	return worker.StartSentinel(t.lab.Worker, in, t.watchList(server.PID(), client.PID()))
}

// watchList returns each CPU once, with all processes that were placed on it. A process that a
// server has started counts as part of the server.
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
	add(t.lab.Placement.Server, host.TakeCensus().Family(server))
	add(t.lab.Placement.Client, []int{client})
	return list
}

// watched holds a sentinel's findings, and the CPU time that watching took.
type watched struct {
	cpus []probe.Watched
	cost time.Duration
}

// window is the measured time, in nanoseconds of the monotonic clock.
type window struct{ beginNS, endNS int64 }

// applyGaps records the sentinels' findings about both ends in the window.
func applyGaps(r *record.Record, watched []probe.Watched, w window) {
	if r.ClientProgram != "" { // its processes were not known as ours
		return
	}
	client, server := on(watched, r.Client.CPUs), on(watched, r.Server.CPUs)
	var why string
	for _, e := range []struct {
		gaps    **record.Gaps
		watched []probe.Watched
	}{{&r.Client.Gaps, client}, {&r.Server.Gaps, server}} {
		if missing := w.unwatched(e.watched); missing != "" {
			why = missing
			continue
		}
		*e.gaps = w.gaps(e.watched)
	}
	if why != "" && r.Cell.Target == "" {
		r.Warnings = append(r.Warnings, "unknown whether other programs had the CPUs of both ends: "+why)
	}
	if r.Client.Gaps == nil || r.Server.Gaps == nil || client[0].CPU == server[0].CPU {
		return
	}
	r.Host.BothStoppedNS = new(longestAtOnce(client, server, w))
}

func on(watched []probe.Watched, cpus []int) []probe.Watched {
	return slices.DeleteFunc(slices.Clone(watched), func(w probe.Watched) bool { return !slices.Contains(cpus, w.CPU) })
}

// unwatched says why an end's CPUs were not watched during the whole window, or "".
func (w window) unwatched(watched []probe.Watched) string {
	if len(watched) == 0 {
		return "the sentinels reported nothing"
	}
	for _, cpu := range watched {
		switch late, early := cpu.FromNS-w.beginNS, w.endNS-cpu.ToNS; {
		case cpu.Wakings == 0:
			return cmp.Or(cpu.Problem, fmt.Sprintf("the sentinel of CPU %d never woke up", cpu.CPU))
		case late > 0:
			return fmt.Sprintf("the sentinel of CPU %d began %.3g ms after the window", cpu.CPU, float64(late)/1e6)
		case early > 0:
			return fmt.Sprintf("the sentinel of CPU %d ended %.3g ms before the window: %s", cpu.CPU, float64(early)/1e6, cpu.Problem)
		}
	}
	return ""
}

// gaps sums up the gaps of an end's CPUs.
func (w window) gaps(watched []probe.Watched) *record.Gaps {
	sum := record.Gaps{CPUs: len(watched)}
	var byLength [65]record.GapLength // by the bits of their nanoseconds
	for _, cpu := range watched {
		perNS := float64(cpu.Wakings) / float64(cpu.ToNS-cpu.FromNS)
		sum.Wakings += int64(perNS * float64(w.endNS-w.beginNS))
		for _, gap := range cpu.Gaps {
			took := w.within(gap)
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

// within returns the part of a gap that lies in the window.
func (w window) within(gap probe.Gap) int64 {
	return min(gap.AtNS+gap.TookNS, w.endNS) - max(gap.AtNS, w.beginNS)
}

// longestAtOnce is the longest time in which neither end could run.
func longestAtOnce(client, server []probe.Watched, w window) int64 {
	longest := int64(0)
	for _, c := range client {
		for _, s := range server {
			for _, gap := range c.Gaps {
				part := window{max(gap.AtNS, w.beginNS), min(gap.AtNS+gap.TookNS, w.endNS)}
				first, _ := slices.BinarySearchFunc(s.Gaps, part.beginNS, func(g probe.Gap, at int64) int { return int(min(1, max(-1, g.AtNS+g.TookNS-at))) })
				for _, other := range s.Gaps[first:] {
					if other.AtNS >= part.endNS {
						break
					}
					longest = max(longest, part.within(other))
				}
			}
		}
	}
	return longest
}
