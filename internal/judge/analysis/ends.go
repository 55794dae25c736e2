package analysis

import (
	"math"

	"wirelab.dev/internal/data/record"
)

// End is what one end cost over the window, besides its CPU time a request.
// Figures are null where they were not measured; of these, peak_bytes alone has
// an interval.
type End struct {
	Share      *Figure `json:"cpu_share" csv:"cpu_share" label:"Share of CPU" interval:"-"`  // of the CPU time of both ends
	Busy       *Figure `json:"busy" csv:"busy_share" label:"Busy" unit:"share" interval:"-"` // share of the CPUs it was given
	Collector  *Figure `json:"gc_share" csv:"gc_share" label:"Collector" interval:"-"`       // of its own CPU time, that its garbage collector took
	Cores      *Figure `json:"cores" interval:"-"`                                           // of them in use: CPU time by time
	RSS        *Figure `json:"rss_bytes" csv:"rss_bytes" label:"Memory" interval:"-"`        // at the window's end
	Peak       *Figure `json:"peak_bytes" csv:"peak_bytes" label:"At its peak"`              // the most in the window
	Own        *Figure `json:"own_bytes" csv:"own_bytes" label:"Its own" interval:"-"`       // the most without the pages of files, which all that run the program share
	Heap       *Figure `json:"heap_bytes" csv:"heap_bytes" label:"Heap" interval:"-"`
	Threads    *Figure `json:"threads" csv:"threads" label:"Threads" interval:"-"` // the most at once, as the next two
	Sockets    *Figure `json:"sockets" csv:"sockets" label:"Sockets" interval:"-"`
	Goroutines *Figure `json:"goroutines" csv:"goroutines" label:"Goroutines" interval:"-"`
}

// endOf is the cost of one end; of picks it, and other the one that it shares
// the work with.
func endOf(trials []trial, of, other func(trial) record.Process) End {
	count := func(field func(record.Process) *int64) *Figure {
		return known(trials, func(t trial) float64 { return number(field(of(t))) })
	}
	return End{
		Share:      known(trials, func(t trial) float64 { return cpuShare(of(t), other(t)) }),
		Busy:       known(trials, func(t trial) float64 { return number(of(t).Busy) }),
		Collector:  known(trials, func(t trial) float64 { return collectorShare(of(t)) }),
		Cores:      known(trials, func(t trial) float64 { return coresInUse(t, of(t)) }),
		RSS:        count(func(p record.Process) *int64 { return p.RSSBytes }),
		Peak:       count(func(p record.Process) *int64 { return p.PeakBytes }),
		Heap:       count(func(p record.Process) *int64 { return p.HeapBytes }),
		Own:        count(func(p record.Process) *int64 { return p.OwnBytes }),
		Threads:    count(func(p record.Process) *int64 { return p.Threads }),
		Sockets:    count(func(p record.Process) *int64 { return p.Sockets }),
		Goroutines: count(func(p record.Process) *int64 { return p.Goroutines }),
	}
}

func clientOf(t trial) record.Process { return t.Client }
func serverOf(t trial) record.Process { return t.Server }

// cpuTime is in nanoseconds.
func cpuTime(p record.Process) float64 {
	if ns, ok := p.CPUNS(); ok {
		return float64(ns)
	}
	return math.NaN()
}

// cpuOf is what a request costs one end, in microseconds. The window's CPU time is
// shared out over the calls that ended in it.
func cpuOf(end func(trial) record.Process) metric {
	return func(t trial) float64 {
		return perCall(t, cpuTime(end(t))) / 1e3
	}
}

// perCall shares out what happened in the window over the calls that ended in it; NaN where
// none did.
func perCall(t trial, amount float64) float64 {
	if t.Completed == 0 {
		return math.NaN()
	}
	return amount / float64(t.Completed)
}

// userShare is the share of an end's CPU time that is not the kernel's.
func userShare(end func(trial) record.Process) metric {
	return func(t trial) float64 { return number(end(t).UserNS) / cpuTime(end(t)) }
}

// switchesOf is how often an end's threads leave their CPUs a request, of themselves or not.
func switchesOf(end func(trial) record.Process) metric {
	return func(t trial) float64 {
		return perCall(t, number(end(t).SwitchesVol)+number(end(t).SwitchesInv))
	}
}

// faultsPerCall is how many page faults an end meets a request.
func faultsPerCall(end func(trial) record.Process) metric {
	return func(t trial) float64 {
		return perCall(t, number(end(t).MinorFaults)+number(end(t).MajorFaults))
	}
}

// syscallsOf is how many system calls of a name an end makes a request. It is known where they
// were counted, and none is then zero.
func syscallsOf(name string, end func(trial) record.Process) metric {
	return func(t trial) float64 {
		seen := end(t).Seen
		if seen == nil || len(seen.Syscalls) == 0 {
			return math.NaN()
		}
		for _, call := range seen.Syscalls {
			if call.Name == name {
				return perCall(t, float64(call.Count))
			}
		}
		return 0
	}
}

func coresInUse(t trial, p record.Process) float64 {
	if t.WindowNS <= 0 {
		return math.NaN()
	}
	return cpuTime(p) / float64(t.WindowNS)
}

// collectorShare uses the runtime's estimate at the end of each collection, which
// may have begun before the window. A process without goroutines is not a Go
// program, so nothing is known of its collector.
func collectorShare(p record.Process) float64 {
	total := cpuTime(p)
	if total == 0 || p.Goroutines == nil {
		return math.NaN()
	}
	return min(1, number(p.GCCPUNS)/total)
}

// assistShare is the part of it that goroutines gave who wanted to allocate.
func assistShare(p record.Process) float64 {
	total := cpuTime(p)
	if total == 0 || p.GCAssistNS == nil {
		return math.NaN()
	}
	return min(1, float64(*p.GCAssistNS)/total)
}

// runWait is the 99th percentile of goroutines' waits for a CPU.
func runWait(p record.Process) float64 {
	if p.SchedP99NS == nil {
		return math.NaN()
	}
	return float64(*p.SchedP99NS) / 1e3 // microseconds, as all times here
}

// cpuShare is NaN, 0 divided by 0, where neither end used any.
func cpuShare(one, other record.Process) float64 {
	return cpuTime(one) / (cpuTime(one) + cpuTime(other))
}

// cpuOfBoth is what a request costs both ends together, in microseconds.
func cpuOfBoth(t trial) float64 { return cpuOf(clientOf)(t) + cpuOf(serverOf)(t) }

// Bound is what kept a closed loop from going faster.
type Bound string

// What a closed loop may be bound by.
const (
	ByServerCPU Bound = "server-cpu"
	ByClientCPU Bound = "client-cpu"
	ByWaiting   Bound = "waiting" // for what takes no CPU: a sleep, a link, a lock
	Unbound     Bound = ""        // an open loop, or neither is plain
)

const (
	// boundBusy is the share of its CPUs from which an end is as busy as it
	// gets: the rest goes to what the scheduler and its neighbours take.
	boundBusy = 0.9
	// boundIdle is the share below which neither end can be what limits, even
	// if its work came in bursts.
	boundIdle = 0.6
	// boundInCalls is the share of their time that clients must spend in
	// calls for their number over the latency to be the throughput.
	boundInCalls = 0.9
)

// bound is what limited a cell. A closed loop's throughput is its clients over the
// latency (Little's law), so a loop that computes little but is always in calls is
// limited by what the calls wait for.
func (c *Cell) bound() Bound {
	client, server := c.Client.Busy, c.Server.Busy
	switch {
	case c.Load.Model != "closed" || client == nil || server == nil:
		return Unbound
	case server.Value >= boundBusy && server.Value >= client.Value:
		return ByServerCPU
	case client.Value >= boundBusy:
		return ByClientCPU
	case client.Value < boundIdle && server.Value < boundIdle && c.InFlight.Value >= boundInCalls*float64(c.Clients):
		return ByWaiting
	}
	return Unbound
}
