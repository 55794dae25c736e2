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

// windowCounters reads the clients' counters when the window opens and when it closes. The
// difference leaves out the warm-up and the drain.
type windowCounters struct {
	conns *stackClients
	last  windowReadings  // readings of the latest window
	kept  *windowReadings // readings of a search's best step
}

// windowReadings holds the counters at both ends of a window.
type windowReadings struct {
	opened, closed counterReading
	times          conn.Times
}

// counterReading holds the values of the counters at one instant.
type counterReading struct {
	atNS    int64
	counts  conn.Counts
	traffic conn.Traffic
}

func (e *windowCounters) readCounters() counterReading {
	r := counterReading{atNS: clock.Now(), counts: e.conns.dialer.Counts(), traffic: trafficOf(e.conns.dialer, e.conns.clients...)}
	if r.traffic.Transport == "tcp" {
		// SendCalls counts all writes of the process, since few libraries count their own. In the
		// window, nearly all writes go to connections. The kernel does not count sendto as a write.
		if writes := probe.CountWriteCalls(); writes > 0 { // 0 means unknown
			r.traffic.SendCalls = writes + batchio.SendCount()
		}
	}
	return r
}

// readAtEdges makes the plan read the counters whenever a window opens or closes.
func (e *windowCounters) readAtEdges(p *load.Plan) {
	p.OnOpen = func() {
		e.conns.dialer.TakeTimes().Close() // drops the times of the warm-up
		e.last.times.Close()               // drops the times of a step that keepWindow did not keep
		e.last = windowReadings{opened: e.readCounters()}
	}
	p.OnClose = func() { e.last.closed, e.last.times = e.readCounters(), e.conns.dialer.TakeTimes() }
}

// keepWindow keeps the readings of the latest window. A search calls it for its best step.
func (e *windowCounters) keepWindow() {
	if e.kept != nil {
		e.kept.times.Close()
	}
	e.kept, e.last.times = new(e.last), conn.Times{}
}

// fillResult adds the window's connections and traffic to the result. It must be called only once.
func (e *windowCounters) fillResult(r *worker.ClientResult, clients int) error {
	if e.kept == nil { // only a search has called keepWindow
		e.keepWindow()
	}
	e.last.times.Close()
	window := e.kept
	r.Connections = worker.Connections{
		Mode: e.conns.mode.String(), Want: e.conns.mode.ConnectionCount(clients),
		Total: window.closed.counts, Window: window.closed.counts.Since(window.opened.counts),
	}
	if e.conns.counted != nil {
		r.Connections.Want, r.Addresses = e.conns.counted.Connections(), e.conns.counted.Addresses()
	}
	r.Connections.During = r.Connections.Window.Opened
	if window.closed.traffic.Transport != "" {
		r.Traffic = &worker.Traffic{SpanNS: window.closed.atNS - window.opened.atNS, Traffic: window.closed.traffic.Since(window.opened.traffic)}
	}
	return fillOpeningTimes(&r.Connections, window.times)
}

// fillOpeningTimes sets the distributions of how long it took to open a connection.
func fillOpeningTimes(c *worker.Connections, t conn.Times) error {
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
	censusCalls       = 10              // number of calls after a connection's first call
	censusSingleCalls = 3               // number of connections with one call each
	censusTimeout     = 2 * time.Second // limits the time of all these calls
	// censusQuietTime is the wait for late bytes of a call. Linux delays an acknowledgement by up
	// to 40 ms, QUIC by up to 25 ms.
	censusQuietTime = 60 * time.Millisecond
)

// byteCounter counts all bytes of one client and its caller, until an error occurs.
type byteCounter struct {
	dialer   conn.Dialer
	client   stack.Client
	messages *messageCounter
	call     func(context.Context) error
	err      error
}

// counterState holds the values of a byteCounter's counters at one instant.
type counterState struct {
	traffic        conn.Traffic
	records        conn.RecordCounts
	frames         conn.FrameCounts
	sent, received int64 // bytes of messages
}

// countBytes counts the bytes of a few calls. After each call it calls alive, to report progress.
func (conns *stackClients) countBytes(ctx context.Context, alive func()) (*worker.ByteCensus, error) {
	ctx, cancel := context.WithTimeout(ctx, censusTimeout)
	defer cancel()
	counts := conns.dialer.Counts()
	secured := counts.Full+counts.Resumed > 0 // true for TLS and QUIC
	c, err := conns.newByteCounter(ctx, conn.Kept, secured)
	if err != nil {
		return nil, err
	}
	defer c.close()
	begun := c.readWhenQuiet(ctx)
	c.makeCalls(ctx, 1, alive)
	first := c.readState()
	c.makeCalls(ctx, censusCalls, alive)
	last := c.readWhenQuiet(ctx)
	if c.err != nil {
		return nil, c.err
	}
	records := last.records.Since(first.records)
	result := &worker.ByteCensus{
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
		result.Handshakes, err = conns.countSingleCalls(ctx, result.First, alive)
	case result.Secured:
		result.Handshakes = handshakesOf(last.records)
	case secured:
		result.Handshakes = worker.Handshakes{Count: 1, SentBytes: begun.traffic.SentBytes, ReceivedBytes: begun.traffic.ReceivedBytes}
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// countSingleCalls counts the bytes of handshakes, on connections that carry one call each. call is
// the traffic of such a call without its handshake.
func (conns *stackClients) countSingleCalls(ctx context.Context, call conn.Traffic, alive func()) (worker.Handshakes, error) {
	c, err := conns.newByteCounter(ctx, conns.target.Lifecycle, true)
	if err != nil {
		return worker.Handshakes{}, err
	}
	defer c.close()
	begun := c.readWhenQuiet(ctx) // by now the client has opened its first connections
	c.makeCalls(ctx, censusSingleCalls, alive)
	last := c.readWhenQuiet(ctx)
	if c.err != nil {
		return worker.Handshakes{}, c.err
	}
	if last.traffic.Transport == "tcp" {
		return handshakesOf(last.records.Since(begun.records)), nil
	}
	all := last.traffic.Since(begun.traffic)
	return worker.Handshakes{
		Count:         censusSingleCalls,
		SentBytes:     max(0, all.SentBytes-censusSingleCalls*call.SentBytes),
		ReceivedBytes: max(0, all.ReceivedBytes-censusSingleCalls*call.ReceivedBytes),
	}, nil
}

func handshakesOf(r conn.RecordCounts) worker.Handshakes {
	return worker.Handshakes{Count: r.Handshakes, SentBytes: r.HandshakeSentBytes, ReceivedBytes: r.HandshakeReceivedBytes}
}

// newByteCounter makes a byteCounter whose client has one connection, or a new connection per call.
func (conns *stackClients) newByteCounter(ctx context.Context, lifecycle conn.Lifecycle, secured bool) (*byteCounter, error) {
	c := &byteCounter{}
	if secured {
		c.dialer.Records = &conn.Records{}
	}
	target := conns.target
	target.Connections, target.Lifecycle, target.Dialer = 1, lifecycle, &c.dialer
	var err error
	if c.client, err = conns.dial(ctx, target); err != nil {
		return nil, fmt.Errorf("open a connection to count bytes: %w", err)
	}
	c.messages = &messageCounter{conn: c.client}
	c.call = conns.newCaller(c.messages, 0).Call
	return c, nil
}

func (c *byteCounter) readState() counterState {
	state := counterState{traffic: trafficOf(&c.dialer, c.client), sent: c.messages.sent.Load(), received: c.messages.received.Load()}
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

func (c *byteCounter) makeCalls(ctx context.Context, n int, alive func()) {
	for i := 0; i < n && c.err == nil; i++ {
		if err := c.call(ctx); err != nil {
			c.err = fmt.Errorf("make a call to count its bytes: %w", err)
		}
		alive()
	}
}

func (c *byteCounter) close() { _ = c.client.Close() }

// readWhenQuiet waits for late bytes of the last call and then reads the counters.
func (c *byteCounter) readWhenQuiet(ctx context.Context) counterState {
	if c.err == nil {
		select {
		case <-ctx.Done():
			c.err = context.Cause(ctx)
		case <-time.After(censusQuietTime):
		}
	}
	return c.readState()
}

// messageCounter counts the bytes of the encoded messages that a caller sends and receives.
type messageCounter struct {
	conn           grpc.ClientConnInterface
	sent, received atomic.Int64 // numbers of bytes
}

var _ grpc.ClientConnInterface = (*messageCounter)(nil)

func (m *messageCounter) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	m.sent.Add(messageSize(args))
	err := m.conn.Invoke(ctx, method, args, reply, options...)
	if err == nil {
		m.received.Add(messageSize(reply))
	}
	return err
}

func (m *messageCounter) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := m.conn.NewStream(ctx, desc, method, options...)
	if err != nil {
		return nil, err
	}
	return &countedStream{ClientStream: stream, home: m}, nil
}

type countedStream struct {
	grpc.ClientStream
	home *messageCounter
}

func (s *countedStream) SendMsg(m any) error {
	s.home.sent.Add(messageSize(m))
	return s.ClientStream.SendMsg(m)
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.home.received.Add(messageSize(m))
	}
	return err
}

func messageSize(message any) int64 {
	m, is := message.(proto.Message)
	if !is {
		return 0
	}
	return int64(proto.Size(m))
}
