package insight

import (
	"cmp"
	"math"
	"slices"
)

// evidence is a part of a call's time in both cells, in microseconds.
type evidence struct {
	kind  CauseKind
	end   string
	a, b  float64
	error float64 // standard error of b minus a
}

func (e evidence) difference() float64 { return e.b - e.a }

// idle is the kind of the time that is neither CPU time nor a wait that a probe names.
const idle CauseKind = ""

// A load says how CPU time of each end becomes time of a call.
type load struct {
	inFlight       float64
	client, server float64 // time of a call per CPU time of a call, 1 or more
	busiest        string  // the end whose CPUs limit the calls; empty if neither does
	busy           float64 // its busy share
}

const (
	// busyEnough is the busy share from which calls queue for an end's CPUs.
	busyEnough = 0.85
	// stillBusy is the busy share that suffices if the other cell's calls queue for the same CPUs.
	stillBusy = 0.6
)

// loadsOf returns the loads of two cells. against may be nil.
func loadsOf(against, of *Insight) (a, b load) {
	b = loadOf(of, busyEnough)
	if against == nil {
		return load{inFlight: 1, client: 1, server: 1}, b
	}
	if a = loadOf(against, busyEnough); a.busiest == b.busiest {
		return a, b
	}
	if again := loadOf(against, stillBusy); again.busiest == b.busiest {
		return again, b
	}
	if again := loadOf(of, stillBusy); again.busiest == a.busiest {
		return a, again
	}
	return a, b
}

// loadOf returns the load of a cell. If several calls are in flight and an end's CPUs are busy, then the
// calls queue there: by Little's law a call takes the CPU time of all calls in flight.
func loadOf(i *Insight, enough float64) load {
	l := load{inFlight: 1, client: 1, server: 1}
	if i.Facts.InFlight != nil {
		l.inFlight = *i.Facts.InFlight
	}
	if l.inFlight < leastQueue {
		return l
	}
	queue := func(end *EndFacts) float64 { return math.Max(1, l.inFlight/math.Max(1, float64(len(end.CPUs)))) }
	// What other programs use of the CPUs is not free for calls.
	others := othersShare(i)
	client, server := valueOf(i.Facts.Client.Busy)+others, valueOf(i.Facts.Server.Busy)+others
	switch {
	case sharesCPUs(i) && client+server >= enough:
		l.client, l.server, l.busiest, l.busy = queue(&i.Facts.Client), queue(&i.Facts.Server), ServerEnd, client+server
	case server >= enough && server >= client:
		l.server, l.busiest, l.busy = queue(&i.Facts.Server), ServerEnd, server
	case client >= enough:
		l.client, l.busiest, l.busy = queue(&i.Facts.Client), ClientEnd, client
	}
	return l
}

// othersShare returns the share of the CPUs of both ends that other programs used, if these use all CPUs
// alike.
func othersShare(i *Insight) float64 {
	return valueOf(i.Facts.Others) / math.Max(1, float64(len(i.Facts.Client.CPUs)+len(i.Facts.Server.CPUs)))
}

// leastQueue is the number of calls in flight from which calls may queue.
const leastQueue = 1.5

func valueOf(f *float64) float64 { return *cmp.Or(f, new(0.0)) }

// sharesCPUs reports whether client and server are pinned to the same CPUs.
func sharesCPUs(i *Insight) bool {
	return len(i.Facts.Client.CPUs) > 0 && slices.Equal(i.Facts.Client.CPUs, i.Facts.Server.CPUs)
}

func (l load) of(end string) float64 {
	if end == ClientEnd {
		return l.client
	}
	return l.server
}

func endFactsOf(i *Insight, end string) *EndFacts {
	if end == ClientEnd {
		return &i.Facts.Client
	}
	return &i.Facts.Server
}

func cpuTime(i *Insight, end string) float64 { return valueOf(endFactsOf(i, end).CPU) }

// isWait reports whether calls spend the time of a kind without a CPU.
func isWait(kind CauseKind) bool {
	return slices.Contains([]CauseKind{ByRunQueue, ByHandlerWait, ByLock, ByWindow, ByLimit, ByHeadOfLine, ByLink, ByConnection}, kind)
}

func splitBy(all []evidence, has func(evidence) bool) (with, without []evidence) {
	for _, e := range all {
		if has(e) {
			with = append(with, e)
		} else {
			without = append(without, e)
		}
	}
	return with, without
}
