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
	server    *Server
	ready     []*serverCall // calls for StartCalls to pass to the workers
	justBegun []*serverCall // unary calls with a deadline
	relief    *time.Timer   // runs while calls are parked
	pings     lifetime.Guard
	maxAge    time.Duration // MaxConnectionAge, changed by up to a tenth
	arrived   time.Duration // time before the handshake
	drainAt   time.Duration // when the drain began
	drained   bool          // the final GOAWAY has been sent
}

var _ connRole = (*serverConn)(nil)

func newServerConn(s *Server, nc net.Conn, auth credentials.AuthInfo, arrived time.Duration) *serverConn {
	c := &serverConn{server: s, arrived: arrived, maxAge: lifetime.Jitter(s.opts.keepalive.MaxConnectionAge)}
	c.conn.init(c, nc, auth, &s.opts.limits)
	p := &s.opts.keepalive
	c.clock.Ping, c.clock.MaxIdle = rpccall.PingTimer{Every: p.Time, Timeout: p.Timeout}, p.MaxConnectionIdle
	return c
}

func (c *serverConn) OnClosed() {
	c.ended()
	c.server.remove(c)
}

// okHeaders and okTrailers are a successful response's usual header and trailers.
var (
	okHeaders = h2.NewFixedFields(
		hpack.HeaderField{Name: ":status", Value: "200"},
		hpack.HeaderField{Name: wire.FieldContentType, Value: wire.ContentType})
	okTrailers = h2.NewFixedFields(hpack.HeaderField{Name: wire.FieldStatus, Value: "0"})
	noFields   = h2.NewFixedFields()
)

func (c *serverConn) OnOpen() *h2.Stream {
	s := &serverCall{conn: c}
	s.callContext.Init(s)
	s.h2.Owner = s
	c.Counters.CallsStarted++
	c.clock.IdleSince = 0
	return &s.h2
}

func (c *serverConn) OnHeaders(hs *h2.Stream, block *h2.Block, end bool) {
	s := hs.Owner.(*serverCall)
	if s.gotHeader {
		s.requestEnded()
		return
	}
	s.gotHeader = true
	if !s.begin(block) {
		if end {
			s.requestEnded()
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
		s.requestEnded()
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
		s.requestEnded()
	}
}

func (c *serverConn) OnReset(hs *h2.Stream, _ h2.Reset) {
	hs.Owner.(*serverCall).abort(context.Canceled)
}

func (c *serverConn) OnDrained(hs *h2.Stream) { rpccall.WakeOne(hs.Owner.(*serverCall).drained) }

// OnGoAway does nothing: the client opens no more streams.
func (c *serverConn) OnGoAway(http2.ErrCode, []byte) {}

func (c *serverConn) OnPing(now time.Duration) *h2.ConnError {
	return c.pings.OnPing(now, c.h2, &c.server.opts.policy)
}

// OnPong sends the final GOAWAY if it answers the drain's ping.
func (c *serverConn) OnPong(data [8]byte) {
	if data == drainPing {
		c.finishDrain()
	}
}

func (c *serverConn) StreamsChanged() {
	c.unpark()
	for i, s := range c.justBegun {
		c.justBegun[i] = nil
		if !s.ended { // rare: most requests come in one read
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

// park keeps a call whose handler may not run yet, see h2's memory.go. It returns false if the
// call may run or was cancelled.
func (c *serverConn) park(s *serverCall) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if !s.h2.Open() || c.h2.Begin(&s.h2) {
		return false
	}
	s.parked = true
	s.h2.Short = s.method.Unary != nil && !s.method.Long.Load()
	c.h2.Park(&s.h2)
	if c.relief == nil {
		c.relief = time.AfterFunc(firstRelief, c.relieve)
	}
	return true
}

// unpark lets parked calls run, with the lock held.
func (c *serverConn) unpark() {
	for hs := c.h2.Unpark(); hs != nil; hs = c.h2.Unpark() {
		s := hs.Owner.(*serverCall)
		s.parked, s.begun = false, true
		c.server.base.Workers.Push([]*serverCall{s})
	}
}

// Parked calls are relieved first after firstRelief, and then after each nextRelief.
const (
	firstRelief = 500 * time.Millisecond
	nextRelief  = 100 * time.Millisecond
)

// relieve lets parked calls run although the client has taken no answer. The timer stops when
// the connection ends, because no call is parked then.
func (c *serverConn) relieve() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	more := c.h2.Relieve()
	if c.unpark(); more {
		c.relief.Reset(nextRelief)
	} else {
		c.relief = nil
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

// Drain begins the graceful end of RFC 9113 section 6.8. It sends a GOAWAY that still accepts all
// streams, and a ping. After the ping's answer a second GOAWAY names the last stream.
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
	c.h2.GoAwaySoon()
	c.h2.Ping(drainPing)
}

func (c *serverConn) finishDrain() {
	if !c.drained {
		c.drained = true
		c.h2.GoAway(http2.ErrCodeNo, "")
	}
}

// checkTimes closes a connection that is idle or too old, or answers no pings.
func (c *serverConn) checkTimes() {
	k, p := &c.clock, &c.server.opts.keepalive
	old := k.Due(k.Began, c.maxAge)
	if !c.h2.SettingsReceived() {
		if k.Due(c.arrived, c.server.opts.connectionTimeout) {
			c.CloseLocked(errNoPreface)
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

// closeIfDrained closes a draining connection after its last stream.
func (c *serverConn) closeIfDrained() {
	if c.drained && c.h2.UnreleasedStreams() == 0 {
		c.CloseLocked(errServerStopping)
	}
}

// release ends the server's use of a stream, with the lock held.
func (c *serverConn) release(s *serverCall) {
	s.dropMessages()
	c.h2.Release(&s.h2)
	c.StreamsChanged()
}

func (c *serverConn) refuse(s *serverCall, st *status.Status) {
	c.h2.SendTrailers(&s.h2, okHeaders, wire.StatusFields(st))
	c.CallEnded(false)
	c.release(s)
}

// httpResponse answers a request that is not gRPC. It is sent when the request ends.
type httpResponse struct{ status, text string }

func (c *serverConn) sendHTTPResponse(s *serverCall) {
	c.h2.SendHeaders(&s.h2, noFields, []hpack.HeaderField{
		{Name: ":status", Value: s.httpError.status},
		{Name: wire.FieldContentType, Value: "text/plain; charset=utf-8"},
	})
	c.h2.SendData(&s.h2, batchio.Payload{Data: []byte(s.httpError.text)}, true)
	c.CallEnded(false)
	c.release(s)
}
