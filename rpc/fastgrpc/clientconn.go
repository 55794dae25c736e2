package fastgrpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/ending"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
	"wirelab.dev/rpc/h2"
)

// A clientConn is one connection to a server.
type clientConn struct {
	conn
	owner       connOwner
	opts        *clientOptions
	serverName  string        // the :authority of the connection's calls
	metadata    metadata.MD   // the address's metadata, which each call sends
	gotSettings chan struct{} // closed when the server has sent SETTINGS
	draining    chan struct{} // closed when the connection stops taking new calls
	isDraining  bool
	waiters     []*streamWaiter // calls that wait for a free stream, the first one first
	ended       []*clientCall   // ended unary calls whose callers must be woken
	reserved    int             // streams that waiters may open and have not opened yet
}

var _ connRole = (*clientConn)(nil)

// A connOwner gets the events of its connections. Calls of onTooManyPings hold the connection's
// lock, calls of onDraining may hold it, and calls of onClosed do not hold it.
type connOwner interface {
	onDraining(*clientConn) // the connection stops taking new calls
	onClosed(*clientConn)
	onTooManyPings()
}

// A streamWaiter is a call that waits for a free stream. The connection's lock guards granted.
type streamWaiter struct {
	granted bool
	wake    chan struct{}
}

var (
	errConnDraining = errors.New("fastgrpc: the connection is closing and takes no new calls")
	errConnDrained  = errors.New("fastgrpc: the connection closed after its last call")
)

// ErrClientClosed is returned by the methods of a closed client.
var ErrClientClosed = errors.New("fastgrpc: the client is closed")

var errClientClosedStatus = status.Error(codes.Canceled, ErrClientClosed.Error())

func newClientConn(user connOwner, o *clientOptions, nc net.Conn, auth credentials.AuthInfo) *clientConn {
	cc := &clientConn{owner: user, opts: o, gotSettings: make(chan struct{}), draining: make(chan struct{})}
	cc.conn.init(cc, nc, auth, &o.limits)
	cc.clock.Ping.Timeout = o.keepalive.Timeout
	cc.clock.MaxIdle = lifetime.Forever // the channel, not the clock, closes idle connections
	return cc
}

func (cc *clientConn) OnClosed() {
	cc.conn.reportClosed()
	cc.owner.onClosed(cc)
}

// openStream waits until the server allows another stream, opens the call's stream and sends the
// request's header. If it succeeds, the lock is held on return, so that the caller can send more.
func (cc *clientConn) openStream(ctx context.Context, c *clientCall, fixed *h2.FixedFields, extra []hpack.HeaderField) error {
	cc.Mu.Lock()
	if len(cc.waiters) > 0 || cc.h2.FreeSlots() <= cc.reserved {
		if err := cc.waitForStream(ctx); err != nil {
			cc.Mu.Unlock()
			return err
		}
	}
	if cc.Err() != nil || !cc.h2.Usable() {
		cc.Mu.Unlock()
		return errConnDraining
	}
	c.deadline, _ = ctx.Deadline()
	if !c.deadline.IsZero() {
		// The timeout is computed after waitForStream, so that it excludes the time spent waiting.
		left := time.Until(c.deadline)
		if left <= 0 {
			cc.handleEndedCalls()
			cc.Mu.Unlock()
			return status.FromContextError(context.DeadlineExceeded).Err()
		}
		extra[0].Value = wire.EncodeTimeout(left)
	}
	if limit := cc.h2.PeerMaxHeaderList(); headerListSize(fixed, extra) > limit {
		cc.handleEndedCalls()
		cc.Mu.Unlock()
		return status.Errorf(codes.Internal, "fastgrpc: the request header has %d bytes, more than the server's limit of %d: send less metadata", headerListSize(fixed, extra), limit)
	}
	c.conn = cc
	cc.h2.Open(&c.h2)
	if !cc.h2.Usable() { // the call used the last stream number
		cc.drain()
	}
	cc.h2.SendHeaders(&c.h2, fixed, extra)
	cc.Counters.CallsStarted++
	cc.clock.IdleSince = 0
	return nil
}

// headerListSize returns the size of a header list, as defined by RFC 9113 section 6.5.2.
func headerListSize(fixed *h2.FixedFields, extra []hpack.HeaderField) uint64 {
	size := fixed.Size()
	for _, f := range extra {
		size += uint64(f.Size())
	}
	return size
}

// waitForStream waits for a free stream. The lock is held on entry and on return.
func (cc *clientConn) waitForStream(ctx context.Context) error {
	if cc.Err() != nil || !cc.h2.Usable() {
		return errConnDraining
	}
	w := &streamWaiter{wake: make(chan struct{})}
	cc.waiters = append(cc.waiters, w)
	cc.Mu.Unlock()
	select {
	case <-w.wake:
		cc.Mu.Lock()
	case <-ctx.Done():
		cc.Mu.Lock()
		if !w.granted {
			cc.waiters = slices.DeleteFunc(cc.waiters, func(other *streamWaiter) bool { return other == w })
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if !w.granted {
		return errConnDraining
	}
	cc.reserved--
	if err := ctx.Err(); err != nil {
		cc.handleEndedCalls()
		return status.FromContextError(err).Err()
	}
	return nil
}

// grantStreams reserves free streams for waiters and wakes them. The lock is held.
func (cc *clientConn) grantStreams() {
	for len(cc.waiters) > 0 && cc.h2.FreeSlots() > cc.reserved {
		w := cc.waiters[0]
		cc.waiters[0] = nil
		cc.waiters = cc.waiters[1:]
		w.granted = true
		cc.reserved++
		close(w.wake)
	}
}

// drain makes the connection refuse new calls. The lock is held.
func (cc *clientConn) drain() {
	if cc.isDraining {
		return
	}
	cc.isDraining = true
	close(cc.draining)
	cc.owner.onDraining(cc)
	for _, w := range cc.waiters {
		close(w.wake)
	}
	cc.waiters = nil
}

// closeAfterCalls refuses new calls, and closes the connection after its last call.
func (cc *clientConn) closeAfterCalls() {
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	cc.drain()
	cc.handleEndedCalls()
	cc.Flush()
}

// OnOpen is never called, because servers open no streams.
func (cc *clientConn) OnOpen() *h2.Stream { return new(h2.Stream) }

func (cc *clientConn) OnHeaders(s *h2.Stream, block *h2.Block, end bool) {
	s.Owner.(*clientCall).onHeaders(block, end)
}

func (cc *clientConn) OnData(s *h2.Stream, data []byte, end bool) {
	s.Owner.(*clientCall).onData(data, end)
}

func (cc *clientConn) OnReset(s *h2.Stream, why h2.Reset) {
	c := s.Owner.(*clientCall)
	c.unprocessed = why.Unprocessed
	c.finish(ending.FromReset(why, c.deadline))
}

func (cc *clientConn) OnDrained(s *h2.Stream) { rpccall.WakeOne(s.Owner.(*clientCall).drained) }

// OnGoAway drains the connection, so that new calls use another one.
func (cc *clientConn) OnGoAway(code http2.ErrCode, debug []byte) {
	if code == http2.ErrCodeEnhanceYourCalm && string(debug) == "too_many_pings" {
		cc.owner.onTooManyPings()
	}
	cc.drain()
}

// OnPing does nothing, because the h2.Conn has already answered the ping.
func (cc *clientConn) OnPing(time.Duration) *h2.ConnError { return nil }

// OnPong does nothing, because keepalive uses the time of the last read.
func (cc *clientConn) OnPong([8]byte) {}

func (cc *clientConn) StreamsChanged() {
	if cc.h2.SettingsReceived() {
		rpccall.CloseOnce(cc.gotSettings)
	}
	cc.handleEndedCalls()
}

// handleEndedCalls must be called after calls have ended or no longer need a reserved stream. It
// wakes the callers of ended calls, grants streams to waiters, and closes a draining connection
// after its last call. The lock is held.
func (cc *clientConn) handleEndedCalls() {
	for i, c := range cc.ended {
		c.signal <- struct{}{} // never blocks, because a call ends once and signal has room for one value
		cc.ended[i] = nil
	}
	cc.ended = cc.ended[:0]
	cc.grantStreams()
	if cc.clock.IdleSince == 0 && cc.h2.OpenStreams() == 0 {
		cc.clock.IdleSince = time.Since(batchio.Epoch)
	}
	if cc.isDraining && cc.h2.OpenStreams() == 0 && cc.reserved == 0 {
		cc.CloseLocked(errConnDrained)
	}
}

func (cc *clientConn) StartCalls() {}

func (cc *clientConn) ConnLost(err error) {
	cc.timer.Stop()
	cc.drain()
	end := ending.FromLostConn(cc.peer.Addr, err)
	cc.h2.DropStreams(func(s *h2.Stream) { s.Owner.(*clientCall).finish(end) })
	cc.handleEndedCalls()
}

// cancelCall ends the call, unless it has already ended. Its unread messages can still be read.
func (cc *clientConn) cancelCall(c *clientCall, end ending.Ending) {
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	c.fail(end)
	c.inbox.EndCall()
	cc.handleEndedCalls()
	cc.Flush()
}

func (cc *clientConn) checkTimeouts() {
	if cc.h2.OpenStreams() > 0 || cc.opts.keepalive.PermitWithoutStream {
		cc.pingIfSilent()
	}
}

func (cc *clientConn) shutdown() {
	end := ending.FromError(errClientClosedStatus)
	var streams []*clientStream
	cc.Mu.Lock()
	if cc.Err() == nil {
		cc.drain()
		cc.h2.DropStreams(func(s *h2.Stream) {
			c := s.Owner.(*clientCall)
			c.finish(end)
			if c.stream != nil {
				streams = append(streams, c.stream)
			}
		})
		cc.h2.GoAway(http2.ErrCodeNo, "")
		cc.CloseLocked(ErrClientClosed) // the calls end, too
	}
	cc.Mu.Unlock()
	for _, s := range streams {
		s.finish(end) // perhaps nobody reads the stream
	}
}
