package body

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/batchio"
)

// edges reads the counters of the stack clients at both edges of the window, to leave out the warm-up
// and the drain.
type edges struct {
	conns *connected
	last  between  // of the last window
	kept  *between // of the step that a search keeps
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
		// Few of the libraries count their writes; in the window a client's process writes to its
		// connections and to almost nothing else. The kernel counts no sendto among them.
		if writes := probe.Writes(); writes > 0 { // otherwise the number is unknown
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

const (
	censusCalls   = 10              // behind a connection's first
	censusSingles = 3               // connections of one call each
	censusAtMost  = 2 * time.Second // for all calls
	// quiet is long enough for everything that follows a call: Linux delays an
	// acknowledgement by 40 ms, QUIC by 25 ms.
	quiet = 60 * time.Millisecond
)

// counter counts every byte of one client and its caller. After an error it does nothing.
type counter struct {
	dialer   conn.Dialer
	client   stack.Client
	messages *messages
	call     func(context.Context) error
	err      error
}

// counted is a reading of all counters.
type counted struct {
	traffic        conn.Traffic
	records        conn.RecordCounts
	frames         conn.FrameCounts
	sent, received int64 // message bytes
}

// census counts single calls. It calls alive after each, so that progress can be reported.
func (conns *connected) census(ctx context.Context, alive func()) (*worker.Census, error) {
	ctx, cancel := context.WithTimeout(ctx, censusAtMost)
	defer cancel()
	counts := conns.dialer.Counts()
	secured := counts.Full+counts.Resumed > 0 // TLS or QUIC
	c, err := conns.count(ctx, conn.Kept, secured)
	if err != nil {
		return nil, err
	}
	defer c.close()
	begun := c.settled(ctx)
	c.calls(ctx, 1, alive)
	first := c.read()
	c.calls(ctx, censusCalls, alive)
	last := c.settled(ctx)
	if c.err != nil {
		return nil, c.err
	}
	records := last.records.Since(first.records)
	result := &worker.Census{
		First: first.traffic.Since(begun.traffic), Calls: censusCalls,
		MessageSentBytes: last.sent - first.sent, MessageReceivedBytes: last.received - first.received,
		Secured: secured && last.traffic.Transport == "tcp", RecordsSent: records.Sent, RecordsReceived: records.Received,
		StreamSentBytes:     last.frames.Sent.Stream - first.frames.Sent.Stream,
		StreamReceivedBytes: last.frames.Received.Stream - first.frames.Received.Stream,
		AckSentBytes:        last.frames.Sent.Acks - first.frames.Sent.Acks,
		AckReceivedBytes:    last.frames.Received.Acks - first.frames.Received.Acks,
		Traffic:             last.traffic.Since(first.traffic),
	}
	switch {
	case secured && conns.target.Lifecycle != conn.Kept:
		result.Handshakes, err = conns.countSingles(ctx, result.First, alive)
	case result.Secured:
		result.Handshakes = handshakes(last.records)
	case secured:
		result.Handshakes = worker.Handshakes{Count: 1, SentBytes: begun.traffic.SentBytes, ReceivedBytes: begun.traffic.ReceivedBytes}
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// countSingles counts connections of one call each. call is the traffic of a connection's
// first call.
func (conns *connected) countSingles(ctx context.Context, call conn.Traffic, alive func()) (worker.Handshakes, error) {
	c, err := conns.count(ctx, conns.target.Lifecycle, true)
	if err != nil {
		return worker.Handshakes{}, err
	}
	defer c.close()
	begun := c.settled(ctx) // the client has then opened its first connections
	c.calls(ctx, censusSingles, alive)
	last := c.settled(ctx)
	if c.err != nil {
		return worker.Handshakes{}, c.err
	}
	if last.traffic.Transport == "tcp" {
		return handshakes(last.records.Since(begun.records)), nil
	}
	all := last.traffic.Since(begun.traffic)
	return worker.Handshakes{
		Count:         censusSingles,
		SentBytes:     max(0, all.SentBytes-censusSingles*call.SentBytes),
		ReceivedBytes: max(0, all.ReceivedBytes-censusSingles*call.ReceivedBytes),
	}, nil
}

func handshakes(r conn.RecordCounts) worker.Handshakes {
	return worker.Handshakes{Count: r.Handshakes, SentBytes: r.HandshakeSentBytes, ReceivedBytes: r.HandshakeReceivedBytes}
}

// count makes a client with one connection, or with one per call.
func (conns *connected) count(ctx context.Context, lifecycle conn.Lifecycle, secured bool) (*counter, error) {
	c := &counter{}
	if secured {
		c.dialer.Records = &conn.Records{}
	}
	target := conns.target
	target.Connections, target.Lifecycle, target.Dialer = 1, lifecycle, &c.dialer
	var err error
	if c.client, err = conns.dial(ctx, target); err != nil {
		return nil, fmt.Errorf("open a connection for counting: %w", err)
	}
	c.messages = &messages{conn: c.client}
	c.call = conns.newCaller(c.messages, 0).Call
	return c, nil
}

func (c *counter) read() counted {
	state := counted{traffic: trafficOf(&c.dialer, c.client), sent: c.messages.sent.Load(), received: c.messages.received.Load()}
	if c.dialer.Records != nil {
		state.records, state.frames = c.dialer.Records.Counts(), c.dialer.Frames().Counts()
	}
	if t := &state.traffic; t.Transport == "udp" {
		sent, received := state.frames.Sent, state.frames.Received
		t.SentBytes, t.SentPackets, t.SentPureAcks = t.SentBytes-sent.Probes, t.SentPackets-sent.ProbePackets, sent.AckPackets
		t.ReceivedBytes, t.ReceivedPackets, t.ReceivedPureAcks = t.ReceivedBytes-received.Probes, t.ReceivedPackets-received.ProbePackets, received.AckPackets
	}
	return state
}

func (c *counter) calls(ctx context.Context, n int, alive func()) {
	for i := 0; i < n && c.err == nil; i++ {
		if err := c.call(ctx); err != nil {
			c.err = fmt.Errorf("a call for counting failed: %w", err)
		}
		alive()
	}
}

func (c *counter) close() { _ = c.client.Close() }

// settled reads the counters once no more bytes follow the last call.
func (c *counter) settled(ctx context.Context) counted {
	if c.err == nil {
		select {
		case <-ctx.Done():
			c.err = context.Cause(ctx)
		case <-time.After(quiet):
		}
	}
	return c.read()
}

// messages counts the bytes of the encoded messages that calls send and receive.
type messages struct {
	conn           grpc.ClientConnInterface
	sent, received atomic.Int64 // bytes
}

var _ grpc.ClientConnInterface = (*messages)(nil)

func (m *messages) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	m.sent.Add(sizeOf(args))
	err := m.conn.Invoke(ctx, method, args, reply, options...)
	if err == nil {
		m.received.Add(sizeOf(reply))
	}
	return err
}

func (m *messages) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := m.conn.NewStream(ctx, desc, method, options...)
	if err != nil {
		return nil, err
	}
	return &countedStream{ClientStream: stream, home: m}, nil
}

type countedStream struct {
	grpc.ClientStream
	home *messages
}

func (s *countedStream) SendMsg(m any) error {
	s.home.sent.Add(sizeOf(m))
	return s.ClientStream.SendMsg(m)
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.home.received.Add(sizeOf(m))
	}
	return err
}

func sizeOf(message any) int64 {
	m, is := message.(proto.Message)
	if !is {
		return 0
	}
	return int64(proto.Size(m))
}
