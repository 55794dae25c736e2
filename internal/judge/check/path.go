package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// path checks that only the protocol between the ends decided the time of calls.
func (t trial) path() record.Check {
	if t.Cell.Kind().Unplaced {
		return record.Check{Level: record.OK, Unit: "share", Detail: "does not apply: a service decides how long it works on a call"}
	}
	for _, look := range []func() (record.Check, bool){t.connecting, t.delayedAcks, t.heldBack, t.unexplained} {
		if c, found := look(); found {
			return c
		}
	}
	return record.Check{Level: record.OK, Unit: "share", Detail: "no wait between the ends decided how long calls took"}
}

// connecting looks for connections that open far slower than a round trip: a name was looked up,
// the first segment was lost, or the server's queue was full.
func (t trial) connecting() (c record.Check, found bool) {
	mode, err := scenario.ParseConnection(t.Connections.Mode)
	if err != nil || !mode.Mode.PerRequest() || t.Connections.Connect == nil || t.Traffic == nil || t.Traffic.MinRTTNS == nil {
		return c, false
	}
	connect, _ := quantiles(*t.Connections.Connect)
	service, _ := quantiles(t.Service)
	trip := float64(*t.Traffic.MinRTTNS)
	// Ten trips: a connection takes one, and a busy server needs more to accept it. New
	// connections may also wait for the CPU work of all others.
	if connect <= max(10*trip, 1e6, t.turnOfAll()) || service <= connect {
		return c, false
	}
	more := (connect - trip) / (service - connect + trip)
	c = record.Check{Unit: "share", Figure: &more, Limit: new(t.limits.Moved.Invalid)}
	verdict(&c, t.limits.Moved.level(more), "a connection took %s to be opened, but a round trip takes %s: its name was looked up, or its first segment was lost; name the server by its address",
		units.Time(connect), units.Time(trip))
	return c, c.Level != record.OK
}

// turnOfAll returns the CPU time that both ends need for one call of each client.
func (t trial) turnOfAll() float64 {
	client, ok := t.Client.CPUNS()
	server, known := t.Server.CPUNS()
	if !ok || !known || t.Completed <= 0 {
		return 0
	}
	return float64(t.Cell.Clients) * float64(client+server) / float64(t.Completed)
}

// Linux sends a delayed acknowledgement after 40 ms (TCP_DELACK_MIN in net/tcp.h), or at most one
// tick of the kernel's timer later.
const (
	delayedAckShortest = 39 * time.Millisecond
	delayedAckLongest  = 52 * time.Millisecond
)

// delayedAcks looks for calls that took as long as a delayed acknowledgement, while
// acknowledgements travelled alone. With answers in one piece, they travel with the next request.
func (t trial) delayedAcks() (c record.Check, found bool) {
	if t.Traffic == nil || t.Traffic.SentPureAcks == nil || t.Completed == 0 || t.Cell.Network.Linked() {
		return c, false
	}
	acks := float64(*t.Traffic.SentPureAcks) / float64(t.Completed)
	if trip := t.Traffic.MinRTTNS; acks < beyondP99 || trip != nil && *trip > int64(delayedAckShortest)/4 {
		return c, false
	}
	h, err := t.Service.Decode()
	if err != nil || h.Max() < delayedAckShortest {
		return c, false
	}
	const width = delayedAckLongest - delayedAckShortest
	within := func(shortest time.Duration) float64 { return notAbove(h, shortest+width) - notAbove(h, shortest) }
	share := within(delayedAckShortest)
	// Calls with other reasons for such a time also take slightly less or more.
	peak := share - max(within(delayedAckShortest-width), within(delayedAckLongest))
	if peak < beyondP99 || acks < share {
		return c, false
	}
	c = record.Check{Unit: "share", Figure: &share, Limit: new(beyondP99)}
	verdict(&c, record.Warning, "%s of the calls took 40 to 52 ms, and acknowledgements went alone: one end held back its second segment until the delayed acknowledgement of its first (set TCP_NODELAY, or write once)", percent(share))
	return c, true
}

// beyondP99 is the share of calls beyond P99: fewer calls do not change it.
const beyondP99 = 0.01

// notAbove returns the share of durations up to a limit, in thousandths.
func notAbove(h *latency.Histogram, d time.Duration) float64 {
	return float64(sort.Search(1001, func(i int) bool { return h.Quantile(float64(i)/1000) > d })) / 1000
}

// heldBackAtMost is the share of busy time from which a full window or buffer, more than the
// protocol, decides the length of transfers.
const heldBackAtMost = 0.5

// heldBack looks for connections held back by a full receive window or send buffer.
func (t trial) heldBack() (c record.Check, found bool) {
	if t.Traffic == nil || t.Traffic.BusyNS == nil || t.Traffic.BlockedNS == nil || *t.Traffic.BusyNS == 0 {
		return c, false
	}
	share := float64(*t.Traffic.BlockedNS) / float64(*t.Traffic.BusyNS)
	c = record.Check{Unit: "share", Figure: &share, Limit: new(heldBackAtMost)}
	verdict(&c, record.Warning, "for %s of the time that bytes were under way, a full receive window or send buffer held them back: the buffers' size decides, more than the protocol", percent(share))
	return c, share > heldBackAtMost
}

// unexplainedNS exceeds the time to wake both idle ends, plus the lateness of their timers.
const unexplainedNS = 500e3

// unexplained looks for a mean wait of calls without a cause in either end's CPU time, while both
// ends had CPU time to spare. Something between or behind the ends is the cause, or a timer.
func (t trial) unexplained() (c record.Check, found bool) {
	client, ok := t.Client.CPUNS()
	server, known := t.Server.CPUNS()
	if t.Cell.Load.Model != "closed" || t.Cell.Network.Linked() || !ok || !known || t.Completed <= 0 || t.busier()+t.Host.TakenByOthers() > t.limits.Idle {
		return c, false
	}
	mean := float64(t.Service.Sum) / float64(max(1, t.Service.Count))
	busy := float64(client+server) / float64(t.Completed)
	// Twice, because at half of its capacity a queue is as long as the work itself.
	waited := mean - 2*busy - float64(valueOf(t.WorkNS))
	share := waited / mean
	c = record.Check{Level: record.Warning, Unit: "share", Figure: &share, Limit: new(t.limits.Moved.Invalid)}
	c.Detail = fmt.Sprintf("a call took %s in the mean, and both ends needed %s of CPU time for it, with CPUs to spare: it waited for something between them or behind the server, or for a timer", units.Time(mean), units.Time(busy))
	return c, waited > unexplainedNS && share > t.limits.Moved.Invalid
}

// stopped checks that nothing stopped an end for longer than its latencies allow, such as a
// debugger, a frozen control group or a signal.
func (t trial) stopped() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: new(t.limits.Moved.Invalid), Detail: "unknown how long the ends stood still"}
	for _, e := range slices.Backward(t.ends()) { // the server's is reported if both are alike
		if e.StoppedNS == nil {
			continue
		}
		by := t.moved(t.met(1, float64(*e.StoppedNS)))
		if c.Figure == nil || by.by > *c.Figure {
			c.Figure = &by.by
			verdict(&c, t.limits.Moved.level(by.by), "the %s stood still for %s at most: %s", e.name, units.Time(float64(*e.StoppedNS)), by.words())
		}
	}
	return c
}

// faultNS is the longest time to read a page, from a disk over a network.
const faultNS = 1e6

// faults checks that no end waited for pages from disk.
func (t trial) faults() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "no end waited for pages from disk"}
	met := int64(0)
	for _, e := range t.ends() {
		met = max(met, valueOf(e.MajorFaults))
	}
	if met == 0 {
		return c
	}
	s := t.moved(t.met(float64(met), faultNS))
	c.Figure, c.Limit = &s.by, new(t.limits.Moved.Invalid)
	verdict(&c, t.limits.Moved.level(s.by), "an end waited %d times for a page from disk; with a slow disk, %s", met, s.words())
	if c.Level == record.Invalid { // the disk may be faster
		c.Level = record.Warning
	}
	return c
}

// valueOf returns a figure, or 0 if it was not measured.
func valueOf[N int64 | float64](figure *N) N { return *cmp.Or(figure, new(N)) }
