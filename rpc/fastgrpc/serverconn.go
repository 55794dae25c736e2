package fastgrpc

import (
	"context"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
	"wirelab.dev/rpc/h2"
)

// A serverConn is one connection of a server.
type serverConn struct {
	conn
	server      *Server
	ready       []*serverCall // calls that StartCalls will pass to the workers
	justBegun   []*serverCall // unary calls with a deadline that began in this read
	unparkTimer *time.Timer   // calls unparkOnTimer; nil while no calls are parked
	pings       lifetime.PingGuard
	maxAge      time.Duration // MaxConnectionAge, changed at random by up to a tenth
	arrived     time.Duration // when the connection was accepted
	drainAt     time.Duration // when the drain began, or 0
	drained     bool          // the final GOAWAY has been sent
}

var _ connRole = (*serverConn)(nil)

func newServerConn(s *Server, nc net.Conn, auth credentials.AuthInfo, arrived time.Duration, l *limits) *serverConn {
	c := &serverConn{server: s, arrived: arrived, maxAge: lifetime.JitterAge(s.opts.keepalive.MaxConnectionAge)}
	c.conn.init(c, nc, auth, l)
	p := &s.opts.keepalive
	c.clock.Ping, c.clock.MaxIdle = rpccall.PingTimer{Every: p.Time, Timeout: p.Timeout}, p.MaxConnectionIdle
	return c
}

func (c *serverConn) OnClosed() {
	c.reportClosed()
	c.server.remove(c)
}

// okHeaders and okTrailers are the header and trailers of most successful responses.
var (
	okHeaders = h2.NewFixedFields(
		hpack.HeaderField{Name: ":status", Value: "200"},
		hpack.HeaderField{Name: wire.FieldContentType, Value: wire.ContentType})
	okTrailers = h2.NewFixedFields(hpack.HeaderField{Name: wire.FieldStatus, Value: "0"})
	noFields   = h2.NewFixedFields()
)

func (c *serverConn) OnOpen() *h2.Stream {
	s := newServerCall(c)
	c.Counters.CallsStarted++
	c.clock.IdleSince = 0
	return &s.h2
}

func (c *serverConn) OnHeaders(hs *h2.Stream, block *h2.Block, end bool) {
	s := hs.Owner.(*serverCall)
	if s.gotHeader {
		s.onRequestEnd()
		return
	}
	s.gotHeader = true
	if !s.readHeader(block) {
		if end {
			s.onRequestEnd()
		}
		return
	}
	if s.method.Stream != nil {
		s.h2.Streaming = true
		s.signal = make(chan struct{}, 1)
		s.drained = make(chan struct{}, 1)
		c.ready = append(c.ready, s)
	}
	if end {
		s.onRequestEnd()
	} else if _, limited := s.callContext.Deadline(); limited && s.method.Unary != nil {
		c.justBegun = append(c.justBegun, s)
	}
}

func (c *serverConn) OnData(hs *h2.Stream, data []byte, end bool) {
	s := hs.Owner.(*serverCall)
	if s.method == nil {
		c.h2.Consume(hs, len(data))
	} else {
		s.onData(data)
	}
	if end {
		s.onRequestEnd()
	}
}

func (c *serverConn) OnReset(hs *h2.Stream, _ h2.Reset) {
	hs.Owner.(*serverCall).abort(context.Canceled)
}

func (c *serverConn) OnDrained(hs *h2.Stream) { rpccall.WakeOne(hs.Owner.(*serverCall).drained) }

// OnGoAway does nothing, because the client itself stops opening streams.
func (c *serverConn) OnGoAway(http2.ErrCode, []byte) {}

func (c *serverConn) OnPing(now time.Duration) *h2.ConnError {
	return c.pings.OnPing(now, c.h2, &c.server.opts.policy)
}

// OnPong sends the final GOAWAY when the client has answered the drain's ping.
func (c *serverConn) OnPong(data [8]byte) {
	if data == drainPing {
		c.finishDrain()
	}
}

func (c *serverConn) StreamsChanged() {
	c.runUnparkedCalls()
	for i, s := range c.justBegun {
		c.justBegun[i] = nil
		if !s.ended { // rare, because most requests come in one read
			s.resetAtDeadline()
		}
	}
	c.justBegun = c.justBegun[:0]
	if c.h2.UnreleasedStreams() == 0 {
		if c.clock.IdleSince == 0 {
			c.clock.IdleSince = time.Since(batchio.Epoch)
		}
		c.closeIfDrained()
	}
}

// parkCall makes a call wait if its handler may not run yet, because too many responses are unread
// (see h2/memory.go). It returns false if the handler may run now, or the call was cancelled.
func (c *serverConn) parkCall(s *serverCall) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if !s.h2.Open() || c.h2.BeginCall(&s.h2) {
		return false
	}
	s.parked = true
	s.h2.Short = s.method.Unary != nil && !s.method.Long.Load()
	c.h2.Park(&s.h2)
	if c.unparkTimer == nil {
		c.unparkTimer = time.AfterFunc(firstUnparkDelay, c.unparkOnTimer)
	}
	return true
}

// runUnparkedCalls passes the parked calls that may now run to the workers. The lock is held.
func (c *serverConn) runUnparkedCalls() {
	for hs := c.h2.Unpark(); hs != nil; hs = c.h2.Unpark() {
		s := hs.Owner.(*serverCall)
		s.parked, s.begun = false, true
		c.server.base.Workers.Push([]*serverCall{s})
	}
}

// unparkOnTimer first runs after firstUnparkDelay, and then after each nextUnparkDelay.
const (
	firstUnparkDelay = 500 * time.Millisecond
	nextUnparkDelay  = 100 * time.Millisecond
)

// unparkOnTimer lets some parked calls run, even if the client reads no responses: the client may
// wait for these calls before it reads. The timer stops when no calls are parked.
func (c *serverConn) unparkOnTimer() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	more := c.h2.UnblockCalls()
	if c.runUnparkedCalls(); more {
		c.unparkTimer.Reset(nextUnparkDelay)
	} else {
		c.unparkTimer = nil
	}
}

func (c *serverConn) StartCalls() {
	c.server.base.Workers.Push(c.ready)
	clear(c.ready)
	c.ready = c.ready[:0]
}

func (c *serverConn) ConnLost(error) {
	c.timer.Stop()
	c.h2.DropStreams(func(hs *h2.Stream) { hs.Owner.(*serverCall).abort(context.Canceled) })
}

// Drain begins to close the connection gracefully (RFC 9113 section 6.8). It sends a GOAWAY that
// still accepts all streams, and a ping. When the client has answered the ping, a second GOAWAY
// names the last accepted stream.
func (c *serverConn) Drain() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Err() != nil || c.drainAt > 0 {
		return
	}
	c.beginDrain()
	c.timer.Reset(lifetime.MaxDrainPingWait)
	c.Flush()
}

func (c *serverConn) beginDrain() {
	c.drainAt = time.Since(batchio.Epoch)
	c.h2.AnnounceGoAway()
	c.h2.Ping(drainPing)
}

func (c *serverConn) finishDrain() {
	if !c.drained {
		c.drained = true
		c.h2.GoAway(http2.ErrCodeNo, "")
	}
}

// checkTimeouts drains a connection that is idle or too old. It closes a connection that sends no
// SETTINGS, does not answer pings, or is not drained in time.
func (c *serverConn) checkTimeouts() {
	k, p := &c.clock, &c.server.opts.keepalive
	old := k.Due(k.Began, c.maxAge)
	if !c.h2.SettingsReceived() {
		if k.Due(c.arrived, c.server.opts.connectionTimeout) {
			c.CloseLocked(errNoSettings)
		}
		return
	}
	if c.pingIfSilent(); c.Err() != nil {
		return
	}
	if c.drainAt == 0 && (old || k.IdleTooLong()) {
		c.beginDrain()
	}
	if c.drainAt == 0 {
		return
	}
	if k.Due(c.drainAt, lifetime.MaxDrainPingWait) {
		c.finishDrain()
	}
	if k.Due(c.drainAt, p.MaxConnectionAgeGrace) {
		c.CloseLocked(errConnAge)
		return
	}
	c.closeIfDrained()
}

// closeIfDrained closes the connection if the final GOAWAY has been sent and no stream is open.
func (c *serverConn) closeIfDrained() {
	if c.drained && c.h2.UnreleasedStreams() == 0 {
		c.CloseLocked(errServerStopping)
	}
}

// endCall counts the call and releases its messages and its stream. Every call ends here, once. The
// lock is held.
func (c *serverConn) endCall(s *serverCall, ok bool) {
	c.CallEnded(ok)
	s.dropMessages()
	c.h2.Release(&s.h2)
	s.call, s.reusable = nil, !s.h2.Open()
	c.StreamsChanged()
}

func (c *serverConn) refuseCall(s *serverCall, st *status.Status) {
	c.h2.SendTrailers(&s.h2, okHeaders, wire.StatusFields(st))
	c.endCall(s, false)
}

// httpResponse is the response to a request that is not gRPC. It is sent after the request's end.
type httpResponse struct{ status, text string }

func (c *serverConn) sendHTTPResponse(s *serverCall) {
	c.h2.SendHeaders(&s.h2, noFields, []hpack.HeaderField{
		{Name: ":status", Value: s.httpError.status},
		{Name: wire.FieldContentType, Value: "text/plain; charset=utf-8"},
	})
	c.h2.SendData(&s.h2, batchio.Payload{Data: []byte(s.httpError.text)}, true)
	c.endCall(s, false)
}
