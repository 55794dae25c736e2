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

// checkPath checks that no wait between the ends, such as a full buffer, made calls slow.
func (t trial) checkPath() record.Check {
	if t.Cell.Kind().Unplaced {
		return record.Check{Level: record.OK, Unit: "share", Detail: "does not apply: only the service knows how long it works on a call"}
	}
	for _, look := range []func() (record.Check, bool){t.findSlowConnecting, t.findDelayedAcks, t.findFullBuffers, t.findUnexplainedWait} {
		if c, found := look(); found {
			return c
		}
	}
	return record.Check{Level: record.OK, Unit: "share", Detail: "no wait between the ends decided how long calls took"}
}

// findSlowConnecting looks for connections that take far longer than a round trip to open. Possible
// causes are a name lookup, a lost first segment, or a full queue of the server.
func (t trial) findSlowConnecting() (c record.Check, found bool) {
	mode, err := scenario.ParseConnection(t.Connections.Mode)
	if err != nil || !mode.Mode.PerRequest() || t.Connections.Connect == nil || t.Traffic == nil || t.Traffic.MinRTTNS == nil {
		return c, false
	}
	connect, _ := medianAndP99(*t.Connections.Connect)
	service, _ := medianAndP99(t.Service)
	trip := float64(*t.Traffic.MinRTTNS)
	// The limit is ten round trips: opening takes one round trip, and a busy server accepts late. A
	// new connection may also wait until both ends have served all other clients.
	if connect <= max(10*trip, 1e6, t.cpuOfAllClients()) || service <= connect {
		return c, false
	}
	more := (connect - trip) / (service - connect + trip)
	c = record.Check{Unit: "share", Figure: &more, Limit: new(t.limits.Moved.Invalid)}
	setVerdict(&c, t.limits.Moved.level(more), "a connection took %s to open, but a round trip takes %s: perhaps the client looked up the server's name, or the first segment was lost; use the server's IP address in place of its name",
		units.Time(connect), units.Time(trip))
	return c, c.Level != record.OK
}

// cpuOfAllClients returns the CPU time that both ends need for one call of each client.
func (t trial) cpuOfAllClients() float64 {
	client, ok := t.Client.CPUNS()
	server, known := t.Server.CPUNS()
	if !ok || !known || t.Completed <= 0 {
		return 0
	}
	return float64(t.Cell.Clients) * float64(client+server) / float64(t.Ended())
}

// Linux sends a delayed acknowledgement after 40 ms (TCP_DELACK_MIN in net/tcp.h), or at most one
// tick of the kernel's timer later.
const (
	delayedAckShortest = 39 * time.Millisecond
	delayedAckLongest  = 52 * time.Millisecond
)

// findDelayedAcks looks for calls that took as long as a delayed acknowledgement, and for segments
// with only an acknowledgement. If each message is sent in one write, acknowledgements travel with
// data.
func (t trial) findDelayedAcks() (c record.Check, found bool) {
	if t.Traffic == nil || t.Traffic.SentPureAcks == nil || t.Completed == 0 || t.Cell.Network.Linked() {
		return c, false
	}
	acks := float64(*t.Traffic.SentPureAcks) / float64(t.Ended())
	if trip := t.Traffic.MinRTTNS; acks < shareBeyondP99 || trip != nil && *trip > int64(delayedAckShortest)/4 {
		return c, false
	}
	h, err := t.decode(&t.Service)
	if err != nil || h.Max() < delayedAckShortest {
		return c, false
	}
	const width = delayedAckLongest - delayedAckShortest
	within := func(shortest time.Duration) float64 { return shareUpTo(h, shortest+width) - shareUpTo(h, shortest) }
	share := within(delayedAckShortest)
	// If something else delays calls, some of them take slightly more or less time.
	peak := share - max(within(delayedAckShortest-width), within(delayedAckLongest))
	if peak < shareBeyondP99 || acks < share {
		return c, false
	}
	c = record.Check{Unit: "share", Figure: &share, Limit: new(shareBeyondP99)}
	setVerdict(&c, record.Warning, "%s of the calls took 40 to 52 ms, and acknowledgements came without data: one end sent its second segment only after the delayed acknowledgement of its first; set TCP_NODELAY, or write each message with one call", units.Percent(share))
	return c, true
}

// shareBeyondP99 is the share of calls beyond P99. Fewer slow calls do not change P99.
const shareBeyondP99 = 0.01

// shareUpTo returns the share of durations up to a limit, in thousandths.
func shareUpTo(h *latency.Histogram, d time.Duration) float64 {
	return float64(sort.Search(1001, func(i int) bool { return h.Quantile(float64(i)/1000) > d })) / 1000
}

// maxHeldBackShare is the largest acceptable share of busy time with a full window or buffer.
const maxHeldBackShare = 0.5

// findFullBuffers looks for connections held back by a full receive window or send buffer.
func (t trial) findFullBuffers() (c record.Check, found bool) {
	if t.Traffic == nil || t.Traffic.BusyNS == nil || t.Traffic.BlockedNS == nil || *t.Traffic.BusyNS == 0 {
		return c, false
	}
	share := float64(*t.Traffic.BlockedNS) / float64(*t.Traffic.BusyNS)
	c = record.Check{Unit: "share", Figure: &share, Limit: new(maxHeldBackShare)}
	setVerdict(&c, record.Warning, "for %s of the time with bytes under way, a full receive window or send buffer stopped the sender: the result shows the buffers' size more than the protocol; use larger buffers", units.Percent(share))
	return c, share > maxHeldBackShare
}

// leastUnexplainedNS is more than the time to wake two idle ends plus the lateness of timers.
const leastUnexplainedNS = 500e3

// findUnexplainedWait looks for a mean wait of calls that the CPU time of both ends does not
// explain. The cause is a timer, or something between or behind the ends.
func (t trial) findUnexplainedWait() (c record.Check, found bool) {
	client, ok := t.Client.CPUNS()
	server, known := t.Server.CPUNS()
	if t.Cell.Load.Model != "closed" || t.Cell.Network.Linked() || !ok || !known || t.Completed <= 0 || t.busierEndShare()+t.Host.TakenByOthers() > t.limits.Idle {
		return c, false
	}
	mean := float64(t.Service.Sum) / float64(max(1, t.Service.Count))
	busy := float64(client+server) / float64(t.Ended())
	// Twice, because at half of the capacity a call waits as long as its own work takes.
	waited := mean - 2*busy - float64(valueOrZero(t.WorkNS))
	share := waited / mean
	c = record.Check{Level: record.Warning, Unit: "share", Figure: &share, Limit: new(t.limits.Moved.Invalid)}
	c.Detail = fmt.Sprintf("a call took %s on average, but both ends together used only %s of CPU time per call, and had idle CPUs: calls waited for a timer, or for something between the ends or behind the server", units.Time(mean), units.Time(busy))
	return c, waited > leastUnexplainedNS && share > t.limits.Moved.Invalid
}

// checkStopped checks whether an end stood still, for example because of a debugger, a frozen
// control group or a signal.
func (t trial) checkStopped() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: new(t.limits.Moved.Invalid), Detail: "neither client nor server reported how long it stood still"}
	for _, e := range slices.Backward(t.ends()) { // the server first, so it is reported for equal figures
		if e.StoppedNS == nil {
			continue
		}
		by := t.boundShift(t.newStop(1, float64(*e.StoppedNS)))
		if c.Figure == nil || by.by > *c.Figure {
			c.Figure = &by.by
			setVerdict(&c, t.limits.Moved.level(by.by), "the %s stood still for at most %s: %s", e.name, units.Time(float64(*e.StoppedNS)), by.describe())
		}
	}
	return c
}

// slowPageReadNS is the time to read a page from a slow disk, such as one over a network.
const slowPageReadNS = 1e6

// checkPageFaults checks that no end waited for pages from disk.
func (t trial) checkPageFaults() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "neither client nor server waited for pages from disk"}
	met := int64(0)
	for _, e := range t.ends() {
		met = max(met, valueOrZero(e.MajorFaults))
	}
	if met == 0 {
		return c
	}
	s := t.boundShift(t.newStop(float64(met), slowPageReadNS))
	c.Figure, c.Limit = &s.by, new(t.limits.Moved.Invalid)
	setVerdict(&c, t.limits.Moved.level(s.by), "the client or the server waited %d times for a page from disk; with a slow disk, %s", met, s.describe())
	if c.Level == record.Invalid { // a faster disk may have read the pages
		c.Level = record.Warning
	}
	return c
}

func valueOrZero[N int64 | float64](figure *N) N { return *cmp.Or(figure, new(N)) }
