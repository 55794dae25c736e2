package body

import (
	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/rpc/batchio"
)

// edges reads the counters of the stack clients at both edges of the window, to leave out the warm-up
// and the drain.
type edges struct {
	conns *connected
	last  between  // of the last window
	kept  *between // that of the step that a search keeps
}

// between holds the readings at both edges of a window.
type between struct {
	opened, closed reading
	times          conn.Times
}

// reading is one reading of those counters.
type reading struct {
	atNS    int64
	counts  conn.Counts
	traffic conn.Traffic
}

func (e *edges) read() reading {
	r := reading{atNS: clock.Now(), counts: e.conns.dialer.Counts(), traffic: trafficOf(e.conns.dialer, e.conns.clients...)}
	if r.traffic.Transport == "tcp" {
		// Few of the libraries count their writes; in the window a client's process
		// writes to its connections and to almost nothing else. The kernel counts no
		// sendto among them.
		if writes := probe.Writes(); writes > 0 { // otherwise they are not known
			r.traffic.SendCalls = writes + batchio.Sends()
		}
	}
	return r
}

// watch makes the plan read the counters.
func (e *edges) watch(p *load.Plan) {
	p.OnOpen = func() {
		e.conns.dialer.TakeTimes().Close() // those of the warm-up
		e.last.times.Close()               // those of a search's step that was not kept
		e.last = between{opened: e.read()}
	}
	p.OnClose = func() { e.last.closed, e.last.times = e.read(), e.conns.dialer.TakeTimes() }
}

// keep keeps the last window of a search.
func (e *edges) keep() {
	if e.kept != nil {
		e.kept.times.Close()
	}
	e.kept, e.last.times = new(e.last), conn.Times{}
}

// fill sets what happened between the edges. It must be called once.
func (e *edges) fill(r *worker.ClientResult, clients int) error {
	if e.kept == nil { // no search
		e.keep()
	}
	e.last.times.Close()
	window := e.kept
	r.Connections = worker.Connections{
		Mode: e.conns.mode.String(), Want: e.conns.mode.Want(clients),
		Total: window.closed.counts, Window: window.closed.counts.Since(window.opened.counts),
	}
	r.Connections.During = r.Connections.Window.Opened
	if window.closed.traffic.Transport != "" {
		r.Traffic = &worker.Traffic{SpanNS: window.closed.atNS - window.opened.atNS, Traffic: window.closed.traffic.Since(window.opened.traffic)}
	}
	return timeOpening(&r.Connections, window.times)
}

// timeOpening sets the distributions of the times that opening connections took.
func timeOpening(c *worker.Connections, t conn.Times) error {
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
