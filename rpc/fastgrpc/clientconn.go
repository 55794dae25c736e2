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
	user        connUser
	opts        *clientOptions
	serverName  string        // the :authority of calls
	metadata    metadata.MD   // metadata of the address, sent with each call
	gotSettings chan struct{} // closed when the server's SETTINGS have come
	draining    chan struct{} // closed when the connection takes no new calls
	isDraining  bool
	waiters     []*waiter     // calls that wait for a free stream, in order
	ended       []*clientCall // unary calls whose callers are to be woken
	reserved    int           // streams granted to waiters and not yet opened
}

var _ connRole = (*clientConn)(nil)

// A connUser gets the events of its connections. The connection's lock is held when it has too
// many pings, perhaps when it takes no new calls, and not when it is closed.
type connUser interface {
	lost(*clientConn) // takes no new calls
	closed(*clientConn)
	tooManyPings()
}

// A waiter is a call that waits for a free stream. The connection's lock guards granted.
type waiter struct {
	granted bool
	wake    chan struct{}
}

var (
	errConnDraining = errors.New("fastgrpc: the connection takes no new calls")
	errDrained      = errors.New("fastgrpc: the server closed the connection gracefully")
)

// ErrClientClosed is the error of calls on a closed client.
var ErrClientClosed = errors.New("fastgrpc: the client is closed")

var errClosedStatus = status.Error(codes.Canceled, ErrClientClosed.Error())

func newClientConn(user connUser, o *clientOptions, nc net.Conn, auth credentials.AuthInfo) *clientConn {
	cc := &clientConn{user: user, opts: o, gotSettings: make(chan struct{}), draining: make(chan struct{})}
	cc.conn.init(cc, nc, auth, &o.limits)
	cc.clock.Ping.Timeout = o.keepalive.Timeout
	cc.clock.MaxIdle = lifetime.Forever // the channel closes idle connections
	return cc
}

func (cc *clientConn) OnClosed() {
	cc.conn.ended()
	cc.user.closed(cc)
}

// open waits until the server allows another stream, opens the call's stream and sends its header.
// On success it returns with the lock held, so that the caller can send more at once.
func (cc *clientConn) open(ctx context.Context, c *clientCall, fixed *h2.FixedFields, extra []hpack.HeaderField) error {
	cc.Mu.Lock()
	if len(cc.waiters) > 0 || cc.h2.Slots() <= cc.reserved {
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
		// The time is computed here, without the time that the call has waited at this end.
		left := time.Until(c.deadline)
		if left <= 0 {
			cc.callsEnded()
			cc.Mu.Unlock()
			return status.FromContextError(context.DeadlineExceeded).Err()
		}
		extra[0].Value = wire.EncodeTimeout(left)
	}
	if limit := cc.h2.PeerMaxHeaderList(); listSize(fixed, extra) > limit {
		cc.callsEnded()
		cc.Mu.Unlock()
		return status.Errorf(codes.Internal, "fastgrpc: request header of %d bytes exceeds the server's limit of %d", listSize(fixed, extra), limit)
	}
	c.conn = cc
	cc.h2.Open(&c.h2)
	if !cc.h2.Usable() { // the call took the last stream
		cc.drain()
	}
	cc.h2.SendHeaders(&c.h2, fixed, extra)
	cc.Counters.CallsStarted++
	cc.clock.IdleSince = 0
	return nil
}

// listSize returns a header list's size as RFC 9113 section 6.5.2 defines it.
func listSize(fixed *h2.FixedFields, extra []hpack.HeaderField) uint64 {
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
	w := &waiter{wake: make(chan struct{})}
	cc.waiters = append(cc.waiters, w)
	cc.Mu.Unlock()
	select {
	case <-w.wake:
		cc.Mu.Lock()
	case <-ctx.Done():
		cc.Mu.Lock()
		if !w.granted {
			cc.waiters = slices.DeleteFunc(cc.waiters, func(other *waiter) bool { return other == w })
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if !w.granted {
		return errConnDraining
	}
	cc.reserved--
	if err := ctx.Err(); err != nil {
		cc.callsEnded()
		return status.FromContextError(err).Err()
	}
	return nil
}

// grant gives free streams to waiters, with the lock held.
func (cc *clientConn) grant() {
	for len(cc.waiters) > 0 && cc.h2.Slots() > cc.reserved {
		w := cc.waiters[0]
		cc.waiters[0] = nil
		cc.waiters = cc.waiters[1:]
		w.granted = true
		cc.reserved++
		close(w.wake)
	}
}

// drain makes the connection take no new calls, with the lock held.
func (cc *clientConn) drain() {
	if cc.isDraining {
		return
	}
	cc.isDraining = true
	close(cc.draining)
	cc.user.lost(cc)
	for _, w := range cc.waiters {
		close(w.wake)
	}
	cc.waiters = nil
}

// leave lets the calls on the connection finish, accepts no more, and then closes it.
func (cc *clientConn) leave() {
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	cc.drain()
	cc.callsEnded()
	cc.Flush()
}

// OnOpen is never called: servers open no streams.
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
	c.finish(ending.Reset(why, c.deadline))
}

func (cc *clientConn) OnDrained(s *h2.Stream) {
	if c := s.Owner.(*clientCall); c.streaming {
		rpccall.WakeOne(c.drained)
	}
}

// OnGoAway drains the connection, so that new calls use another one.
func (cc *clientConn) OnGoAway(code http2.ErrCode, debug []byte) {
	if code == http2.ErrCodeEnhanceYourCalm && string(debug) == "too_many_pings" {
		cc.user.tooManyPings()
	}
	cc.drain()
}

// OnPing does nothing: the h2.Conn has answered.
func (cc *clientConn) OnPing(time.Duration) *h2.ConnError { return nil }

// OnPong does nothing: keepalive checks the time of the last read.
func (cc *clientConn) OnPong([8]byte) {}

func (cc *clientConn) StreamsChanged() {
	if cc.h2.SettingsReceived() {
		rpccall.CloseOnce(cc.gotSettings)
	}
	cc.callsEnded()
}

// callsEnded is called, with the lock held, when calls may have ended or given up reserved
// streams. It wakes the callers, grants streams to waiters, and closes a draining connection
// after its last call.
func (cc *clientConn) callsEnded() {
	for i, c := range cc.ended {
		c.signal <- struct{}{} // never blocks: a call ends once
		cc.ended[i] = nil
	}
	cc.ended = cc.ended[:0]
	cc.grant()
	if cc.clock.IdleSince == 0 && cc.h2.OpenStreams() == 0 {
		cc.clock.IdleSince = time.Since(batchio.Epoch)
	}
	if cc.isDraining && cc.h2.OpenStreams() == 0 && cc.reserved == 0 {
		cc.CloseLocked(errDrained)
	}
}

func (cc *clientConn) StartCalls() {}

func (cc *clientConn) ConnLost(err error) {
	cc.timer.Stop()
	cc.drain()
	end := ending.ConnLost(cc.peer.Addr, err)
	cc.h2.DropStreams(func(s *h2.Stream) { s.Owner.(*clientCall).finish(end) })
	cc.callsEnded()
}

func (cc *clientConn) cancel(c *clientCall, err error) {
	cc.Mu.Lock()
	end := ending.Failed(status.FromContextError(err).Err())
	c.fail(end)
	if c.streaming && c.inbox.Len() > 0 {
		// Unread messages are dropped, even if the call had succeeded.
		c.end = end
		c.inbox.Drop()
	}
	cc.callsEnded()
	cc.Flush()
	cc.Mu.Unlock()
}

func (cc *clientConn) checkTimes() {
	if cc.h2.OpenStreams() > 0 || cc.opts.keepalive.PermitWithoutStream {
		cc.pingIfSilent()
	}
}

func (cc *clientConn) shutdown() {
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	if cc.Err() != nil {
		return
	}
	cc.drain()
	cc.h2.DropStreams(func(s *h2.Stream) { s.Owner.(*clientCall).finish(ending.Failed(errClosedStatus)) })
	cc.h2.GoAway(http2.ErrCodeNo, "")
	cc.CloseLocked(ErrClientClosed) // the calls end too
}

func (cc *clientConn) closeReason() error {
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	if cc.Err() != nil {
		return cc.Err()
	}
	return errConnDraining
}
