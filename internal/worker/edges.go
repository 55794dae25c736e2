package worker

import (
	"wirelab.dev/internal/clock"
	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/load"
	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/stack"
)

// edges holds a fleet's counters at both edges of the window, to leave out the warm-up
// and the drain.
type edges struct {
	fleet          *fleet
	opened, closed reading
	times          stack.ConnectionTimes
}

// reading is one reading of the fleet's counters.
type reading struct {
	atNS    int64
	counts  stack.ConnectionCounts
	traffic stack.Traffic
}

func (e *edges) read() reading {
	r := reading{atNS: clock.Now(), counts: e.fleet.dialer.Counts(), traffic: trafficOf(e.fleet.dialer, e.fleet.clients...)}
	if r.traffic.Transport == "tcp" {
		// None of the libraries counts its writes; in the window a client's process
		// writes to its connections and to almost nothing else.
		r.traffic.SendCalls = probe.Writes()
	}
	return r
}

// watch makes the plan read the counters.
func (e *edges) watch(p *load.Plan) {
	p.OnOpen = func() {
		e.fleet.dialer.TakeTimes().Close() // those of the warm-up
		e.opened = e.read()
	}
	p.OnClose = func() { e.closed, e.times = e.read(), e.fleet.dialer.TakeTimes() }
}

// fill sets what happened between the edges. It must be called once.
func (e *edges) fill(r *ClientResult, clients int) error {
	r.Connections = Connections{
		Mode: e.fleet.mode.String(), Want: e.fleet.mode.Want(clients),
		Total: e.closed.counts, Window: e.closed.counts.Since(e.opened.counts),
	}
	r.Connections.During = r.Connections.Window.Opened
	if e.closed.traffic.Transport != "" {
		r.Traffic = &Traffic{SpanNS: e.closed.atNS - e.opened.atNS, Traffic: e.closed.traffic.Since(e.opened.traffic)}
	}
	return r.Connections.time(e.times)
}

// time sets the distributions of how long opening connections took.
func (c *Connections) time(t stack.ConnectionTimes) error {
	defer t.Close()
	for _, one := range []struct {
		to   **latency.Distribution
		from *latency.Recorder
	}{{&c.Connect, t.Connect}, {&c.Handshake, t.Handshake}, {&c.FirstByte, t.FirstByte}} {
		if one.from == nil {
			continue
		}
		taken, err := latency.NewHistogram(one.from).Distribution()
		if err != nil {
			return err
		}
		*one.to = &taken
	}
	return nil
}
