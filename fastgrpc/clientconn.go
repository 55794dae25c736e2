package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// clientConn is one connection to a server.
type clientConn struct {
	transport
	client   *Client
	peer     *peer.Peer
	settled  chan struct{} // closed when the server's SETTINGS have come, or never will
	leaving  chan struct{} // closed when it takes no new calls
	gone     bool
	waiters  []*waiter // calls that wait for room, first come first served
	ended    []*call   // unary calls whose callers are to be woken
	reserved int       // room that has been given to waiters and not yet taken
	keep     clientKeepalive
	statsCtx context.Context
}

var _ side = (*clientConn)(nil)

// waiter is a call that waits for room; granted is guarded by the connection's lock.
type waiter struct {
	granted bool
	wake    chan struct{}
}

var (
	errLeaving = errors.New("fastgrpc: the connection takes no new calls")
	errDrained = errors.New("fastgrpc: the server closed the connection gracefully")
)

func newClientConn(c *Client, nc net.Conn, p *peer.Peer) *clientConn {
	cc := &clientConn{
		client: c, peer: p,
		settled: make(chan struct{}), leaving: make(chan struct{}),
	}
	cc.transport.init(nc, cc, c.opts.h2Config())
	if h := c.opts.stats; h != nil {
		cc.statsCtx = h.TagConn(context.Background(), &stats.ConnTagInfo{RemoteAddr: p.Addr, LocalAddr: p.LocalAddr})
		h.HandleConn(cc.statsCtx, &stats.ConnBegin{Client: true})
	}
	cc.onTeardown = cc.teardown
	return cc
}

func (cc *clientConn) start() {
	cc.mu.Lock()
	cc.keep.start(cc)
	cc.mu.Unlock()
	cc.transport.start()
}

func (cc *clientConn) teardown() {
	if h := cc.client.opts.stats; h != nil {
		h.HandleConn(cc.statsCtx, &stats.ConnEnd{Client: true})
	}
	cc.client.pool.forget(cc)
}

// open opens the call's stream, when the server has room for it, and sends its
// header. On success the lock is held, so that the caller can send more at once.
func (cc *clientConn) open(ctx context.Context, c *call, fixed *h2.FixedFields, extra []hpack.HeaderField) error {
	cc.mu.Lock()
	if len(cc.waiters) > 0 || cc.h2.Slots() <= cc.reserved {
		if err := cc.waitForRoom(ctx); err != nil {
			cc.mu.Unlock()
			return err
		}
	}
	if cc.err != nil || !cc.h2.Usable() {
		cc.mu.Unlock()
		return errLeaving
	}
	if limit := cc.h2.PeerMaxHeaderList(); listSize(fixed, extra) > limit {
		cc.mu.Unlock()
		return status.Errorf(codes.Internal, "fastgrpc: header list is larger than the server's limit of %d bytes", limit)
	}
	c.conn = cc
	c.deadline, _ = ctx.Deadline()
	cc.h2.Open(&c.h2)
	cc.h2.SendHeaders(&c.h2, fixed, extra)
	cc.counters.callsStarted++
	cc.keep.busy()
	return nil
}

// listSize is a header list's size as RFC 9113 section 6.5.2 counts it.
func listSize(fixed *h2.FixedFields, extra []hpack.HeaderField) uint64 {
	size := fixed.Size()
	for _, f := range extra {
		size += uint64(f.Size())
	}
	return size
}

// waitForRoom queues for a stream, with the lock held before and after.
func (cc *clientConn) waitForRoom(ctx context.Context) error {
	if cc.err != nil || !cc.h2.Usable() {
		return errLeaving
	}
	w := &waiter{wake: make(chan struct{})}
	cc.waiters = append(cc.waiters, w)
	cc.mu.Unlock()
	select {
	case <-w.wake:
		cc.mu.Lock()
	case <-ctx.Done():
		cc.mu.Lock()
		if !w.granted {
			cc.dropWaiter(w)
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if !w.granted {
		return errLeaving
	}
	cc.reserved--
	if err := ctx.Err(); err != nil {
		cc.grant()
		return status.FromContextError(err).Err()
	}
	return nil
}

func (cc *clientConn) dropWaiter(w *waiter) {
	for i, other := range cc.waiters {
		if other == w {
			cc.waiters = append(cc.waiters[:i], cc.waiters[i+1:]...)
			return
		}
	}
}

// grant gives free room to those who wait for it, with the lock held.
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

// leave makes the connection take no new calls, with the lock held.
func (cc *clientConn) leave() {
	if cc.gone {
		return
	}
	cc.gone = true
	close(cc.leaving)
	for _, w := range cc.waiters {
		close(w.wake)
	}
	cc.waiters = nil
}

// OnOpen never happens: servers open no streams.
func (cc *clientConn) OnOpen() *h2.Stream { return new(h2.Stream) }

// OnHeaders passes fields to their call.
func (cc *clientConn) OnHeaders(s *h2.Stream, block *h2.Block, end bool) {
	s.Owner.(*call).onHeaders(block, end)
}

// OnData passes content to its call.
func (cc *clientConn) OnData(s *h2.Stream, data []byte, end bool) {
	s.Owner.(*call).onData(data, end)
}

// OnReset ends a call early.
func (cc *clientConn) OnReset(s *h2.Stream, why h2.Reset) {
	c := s.Owner.(*call)
	c.unprocessed = why.Unprocessed
	// In grpc-go's words, for those who look for them.
	text := fmt.Sprintf("fastgrpc: stream terminated by RST_STREAM with error code: %s", why.Code)
	if why.Reason != "" {
		text += "; " + why.Reason
	}
	c.finish(status.New(codeOfReset(why.Code, c.deadline), text))
}

// OnDrained lets a stream's sender go on.
func (cc *clientConn) OnDrained(s *h2.Stream) {
	if c := s.Owner.(*call); c.streaming {
		wakeOne(c.drained)
	}
}

// OnGoAway makes room for a new connection while this one's calls end.
func (cc *clientConn) OnGoAway(code h2.ErrCode, debug []byte) {
	if code == h2.CodeEnhanceYourCalm && string(debug) == "too_many_pings" {
		cc.client.slowKeepalive()
	}
	cc.leave()
}

// OnPing is answered by the machine.
func (cc *clientConn) OnPing(time.Duration) *h2.ConnError { return nil }

// OnPong needs nothing: that something was read is what counts.
func (cc *clientConn) OnPong([8]byte) {}

func (cc *clientConn) fed() {
	if cc.h2.Settled() {
		select {
		case <-cc.settled:
		default:
			close(cc.settled)
		}
	}
	cc.afterEnd()
}

// afterEnd follows the end of calls, with the lock held: others may begin, and a
// connection that is left closes behind the last.
func (cc *clientConn) afterEnd() {
	for i, c := range cc.ended {
		c.signal <- struct{}{} // has room: a call ends once
		cc.ended[i] = nil
	}
	cc.ended = cc.ended[:0]
	cc.grant()
	if cc.keep.idleSince == 0 && cc.h2.OpenStreams() == 0 {
		cc.keep.free()
	}
	if cc.gone && cc.h2.OpenStreams() == 0 && cc.reserved == 0 {
		cc.closeLocked(errDrained)
	}
}

func (cc *clientConn) settle() {}

func (cc *clientConn) lost(err error) {
	cc.keep.stop()
	cc.leave()
	st := status.Newf(codes.Unavailable, "fastgrpc: connection to %v lost: %v", cc.peer.Addr, err)
	cc.h2.DropStreams(func(s *h2.Stream) {
		c := s.Owner.(*call)
		c.cause = err
		c.finish(st)
	})
	cc.afterEnd()
}

// cancel ends a call because its context has ended.
func (cc *clientConn) cancel(c *call, err error) {
	cc.mu.Lock()
	st := status.FromContextError(err)
	c.fail(st)
	if c.streaming && len(c.queue) > 0 {
		// What was not read is given up, even if the call had ended well.
		c.status = st
		c.drop()
	}
	cc.afterEnd()
	cc.flush()
	cc.mu.Unlock()
}

// clientKeepalive watches one connection of a client, guarded by its lock.
type clientKeepalive struct {
	conn      *clientConn
	timer     *time.Timer
	pinger    pinger
	idleSince time.Duration // 0 while calls are open
}

func (k *clientKeepalive) start(cc *clientConn) {
	k.conn = cc
	k.pinger = pinger{every: cc.client.keepaliveTime(), timeout: cc.client.opts.keepalive.Timeout}
	k.idleSince = time.Since(epoch)
	k.timer = time.AfterFunc(k.firstCheck(), k.check)
}

func (k *clientKeepalive) firstCheck() time.Duration {
	next := k.pinger.every
	if d := k.conn.client.opts.idleTimeout; d > 0 {
		next = min(next, d)
	}
	return next
}

func (k *clientKeepalive) stop() { k.timer.Stop() }
func (k *clientKeepalive) busy() { k.idleSince = 0 }
func (k *clientKeepalive) free() { k.idleSince = time.Since(epoch) }

func (k *clientKeepalive) check() {
	cc := k.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.err != nil {
		return
	}
	opts := &cc.client.opts
	now := time.Since(epoch)
	next := k.firstCheck()
	if k.idleSince > 0 && opts.idleTimeout > 0 {
		left := k.idleSince + opts.idleTimeout - now
		if left <= 0 {
			cc.h2.GoAway(h2.CodeNo, "")
			cc.closeLocked(errConnIdle)
			return
		}
		next = min(next, left)
	}
	if k.pinger.every < forever && (cc.h2.OpenStreams() > 0 || opts.keepalive.PermitWithoutStream) {
		left, ping, dead := k.pinger.check(now, time.Duration(cc.lastRead.Load()))
		if dead {
			cc.closeLocked(errPingTimeout)
			return
		}
		if ping {
			cc.h2.Ping(keepalivePing)
		}
		next = min(next, left)
	}
	cc.flush()
	k.timer.Reset(max(next, time.Millisecond))
}

// shutdown ends the connection because the client closes.
func (cc *clientConn) shutdown() {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.err != nil {
		return
	}
	cc.leave()
	cc.h2.DropStreams(func(s *h2.Stream) {
		s.Owner.(*call).finish(status.New(codes.Canceled, ErrClientClosed.Error()))
	})
	cc.h2.GoAway(h2.CodeNo, "")
	cc.closeLocked(ErrClientClosed) // and wakes them
}

func (cc *clientConn) endError() error {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.err != nil {
		return cc.err
	}
	return errLeaving
}

// sawCalls reports whether the connection was of any use.
func (cc *clientConn) sawCalls() bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.counters.callsStarted > 0
}
