package creditrpc

import (
	"context"
	"slices"

	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
)

const (
	// lateEncoding is the length from which a request waits for its turn before it is encoded.
	// If the requests of many callers were encoded long before they are sent, they would fill
	// the caches, and would be copied from main memory into the socket.
	lateEncoding = 16 << 10
	// encodedAhead bounds the bytes of such requests that are encoded and wait for credit. It
	// is more than the credit that comes at once, so that credit never waits for a request.
	encodedAhead = 512 << 10
)

// encoders decides which callers may encode their long requests, in the order in which they
// ask. The connection's lock guards it.
type encoders struct {
	ahead   int // bytes that are being encoded, or are encoded and not in the output
	waiting []*clientCall
	closed  bool // the connection has ended: no call waits
}

// enter reports whether a call may encode a request of that length now. If not, the call must
// wait for its signal.
func (e *encoders) enter(call *clientCall, bytes int) (now bool) {
	call.encoders, call.ahead = e, bytes
	if !e.closed && (len(e.waiting) > 0 || !e.fits(bytes)) {
		e.waiting, call.waits = append(e.waiting, call), true
		return false
	}
	e.ahead += bytes
	return true
}

// fits reports whether another request may be encoded. The only one always may.
func (e *encoders) fits(bytes int) bool { return e.ahead == 0 || e.ahead+bytes <= encodedAhead }

// leave ends a call's turn, or its wait for one. It may be called at any time.
func (e *encoders) leave(call *clientCall) {
	if call.waits {
		e.waiting = slices.DeleteFunc(e.waiting, func(other *clientCall) bool { return other == call })
		call.waits, call.ahead = false, 0
	}
	e.ahead -= call.ahead
	call.encoders, call.ahead = nil, 0
	e.admit()
}

func (e *encoders) admit() {
	for len(e.waiting) > 0 && (e.closed || e.fits(e.waiting[0].ahead)) {
		next := e.waiting[0]
		e.waiting[0] = nil
		e.waiting = e.waiting[1:]
		next.waits = false
		e.ahead += next.ahead
		next.signal <- struct{}{}
	}
}

// close wakes all waiting calls, which then find that the connection has ended.
func (e *encoders) close() {
	e.closed = true
	e.admit()
}

// encode encodes a call's request, if it begins with one. A long one waits for its turn.
func (cc *clientConn) encode(ctx context.Context, call *clientCall, m *rpccall.Measured) (*batchio.Buffer, error) {
	if m == nil {
		return nil, nil //nolint:nilnil // a stream begins without a request
	}
	if most := cc.link.Peer().MaxMessage; uint64(m.Size) > most { // it has greeted, so that does not change
		return nil, rpccall.TooLarge("creditrpc: trying to send message", m.Size, int(most))
	}
	if m.Size >= lateEncoding {
		if err := cc.awaitTurn(ctx, call, m.Size); err != nil {
			return nil, err
		}
	}
	b, err := marshal(m)
	if err != nil {
		cc.Mu.Lock()
		call.encoded()
		cc.Mu.Unlock()
	}
	return b, err
}

func (cc *clientConn) awaitTurn(ctx context.Context, call *clientCall, bytes int) error {
	cc.Mu.Lock()
	now := cc.encoders.enter(call, bytes)
	cc.Mu.Unlock()
	if now {
		return nil
	}
	select {
	case <-call.signal:
		return nil
	case <-ctx.Done():
	}
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	call.encoded()
	select {
	case <-call.signal: // its turn came meanwhile
	default:
	}
	return status.FromContextError(ctx.Err()).Err()
}

// encoded ends the call's turn to encode, when its request is in the output or was given up.
// The connection's lock is held.
func (c *clientCall) encoded() {
	if c.encoders != nil {
		c.encoders.leave(c)
	}
}
