package creditrpc

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// A clientCall is one attempt of a call. The memory of unary calls is reused.
type clientCall struct {
	stream  link.Stream
	streams bool

	// Guarded by the connection's lock until the call is over.
	inbox           rpccall.Queue[link.Message]
	header, trailer metadata.MD
	err             error
	answered        bool // a header or a message has come
	over            bool

	encoders *encodeQueue // the queue that counts the request until it is sent; nil if none does
	ahead    int          // bytes of the request that encoders counts, or will count
	waits    bool         // the call waits for its turn to encode

	signal  chan struct{} // wakes the caller, for a message, the end or its turn to encode
	drained chan struct{} // all messages were sent; streams only
	headers chan struct{} // closed when the header has come, or cannot come; streams only
}

func (c *clientCall) wake() {
	if c.streams {
		rpccall.WakeOne(c.signal)
		rpccall.WakeOne(c.drained)
	}
}

// signalHeader is called when the header has come, or cannot come.
func (c *clientCall) signalHeader() {
	if c.headers != nil {
		rpccall.CloseOnce(c.headers)
	}
}

// finish ends the call, unless it has already ended. The connection's lock is held.
func (c *clientCall) finish(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	c.endEncoding()
	c.signalHeader()
	if !c.streams {
		c.signal <- struct{}{}
		return
	}
	if errors.Is(err, errRefused) { // only unary calls are repeated
		c.err = status.Error(codes.Unavailable, err.Error())
	}
	c.wake()
}

// maxTries limits the connections on which a call is tried if the servers refuse the call.
const maxTries = 5

// invoke is a grpc.UnaryInvoker. It ignores the *grpc.ClientConn.
//
//nolint:revive // grpc-go chose the arguments
func (c *Client) invoke(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) (err error) {
	info, err := c.readOptions(opts)
	if len(info.OnFinish) > 0 {
		defer func() { info.CallOnFinish(err) }()
	}
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err = c.attempt(ctx, method, req, reply, &info)
		if !errors.Is(err, errRefused) {
			return err
		}
		if try == maxTries {
			return status.Error(codes.Unavailable, err.Error())
		}
	}
}

// attempt makes a unary call on one connection.
func (c *Client) attempt(ctx context.Context, method string, req, reply any, info *callInfo) error {
	m, err := measure(req, info.MaxSend)
	if err != nil {
		return err
	}
	call := c.calls.Get().(*clientCall)
	call.stream.Owner = call
	cc, err := c.begin(ctx, call, method, info, &m)
	if err != nil {
		c.recycleCall(call)
		return err
	}
	if done := ctx.Done(); done == nil {
		<-call.signal
	} else {
		select {
		case <-call.signal:
		case <-done:
			cc.cancel(call, ctx.Err())
			<-call.signal
		}
	}
	info.setResults(cc, call)
	several := call.inbox.Len() > 1
	answer, answered := call.inbox.Take()
	switch err = call.err; {
	case err != nil:
		answer.Release()
	case several:
		answer.Release()
		err = status.Error(codes.Internal, "creditrpc: more than one message in a unary response")
	case !answered:
		err = status.Error(codes.Internal, "creditrpc: response without a message")
	default:
		err = decode(&answer, reply, info.MaxReceive)
	}
	c.recycleCall(call)
	return err
}

// begin begins a unary call and sends its message m. If m is nil, begin begins a stream. The caller
// must not hold the connection's lock.
func (c *Client) begin(ctx context.Context, call *clientCall, method string, info *callInfo, m *rpccall.SizedMessage) (*clientConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	for {
		cc, err := c.pickConn(ctx, info.WaitForReady)
		if err != nil {
			return nil, err
		}
		md, err := info.metadata(ctx, cc, method)
		if err != nil {
			return nil, err
		}
		b, err := cc.encode(ctx, call, m)
		if err != nil {
			return nil, err
		}
		cc.Mu.Lock()
		ended := cc.Err() != nil || cc.link.Draining()
		if !ended {
			err = cc.checkCall(method, md)
		}
		if ended || err != nil {
			call.endEncoding()
			cc.Mu.Unlock()
			if b != nil {
				b.Release()
			}
			if !ended {
				return nil, err
			}
			c.abandon(cc)
			continue
		}
		timeout := int64(0)
		if deadline, ok := ctx.Deadline(); ok {
			// Rounded up, so that the client's deadline passes first. 0 means no timeout.
			timeout = max(1, (time.Until(deadline)-1).Microseconds()+1)
		}
		cc.link.Begin(&call.stream, method, uint64(timeout), appendMeta(md))
		cc.Counters.CallsStarted++
		if b != nil {
			cc.link.Send(&call.stream, batchio.Payload{Data: b.Data, Owner: b}, true)
			cc.FlushBatch()
		} else {
			cc.link.Start(&call.stream)
			cc.Flush()
		}
		cc.Mu.Unlock()
		return cc, nil
	}
}

// checkCall returns an error if the server would not accept the call.
func (cc *clientConn) checkCall(method string, md metadata.MD) error {
	if !cc.link.CanName(method) {
		return status.Errorf(codes.Internal, "creditrpc: method %q: the name is too long, or the client uses too many methods", method)
	}
	return checkMeta(md, int(cc.link.Peer().MaxMeta))
}

// recycleCall keeps a unary call for reuse. The call has ended, or was never begun.
func (c *Client) recycleCall(call *clientCall) {
	releaseAll(&call.inbox)
	signal := call.signal
	*call = clientCall{signal: signal}
	c.calls.Put(call)
}

const (
	// minQueuedEncoding is the least length of a request that waits for its turn before it is
	// encoded. If many requests were encoded long before they are sent, they would not fit into the
	// CPU's caches, and would be copied from main memory into the socket.
	minQueuedEncoding = 16 << 10
	// maxEncodedBytes limits the bytes of long requests that are encoded and wait for credit. It
	// exceeds the credit that arrives at once, so that credit never waits for a request.
	maxEncodedBytes = 512 << 10
)

// encodeQueue decides which callers may encode their long requests, in the order in which they
// asked. The connection's lock guards it.
type encodeQueue struct {
	ahead   int // bytes of requests that are being encoded, or are not yet in the output
	waiting []*clientCall
	closed  bool // the connection has ended, so no call waits
}

// enter reports whether a call may encode a request of that length now. If not, the call must wait
// until it gets its signal.
func (e *encodeQueue) enter(call *clientCall, bytes int) (now bool) {
	call.encoders, call.ahead = e, bytes
	if !e.closed && (len(e.waiting) > 0 || !e.hasRoom(bytes)) {
		e.waiting, call.waits = append(e.waiting, call), true
		return false
	}
	e.ahead += bytes
	return true
}

// hasRoom reports whether another request may be encoded. The first request always may.
func (e *encodeQueue) hasRoom(bytes int) bool {
	return e.ahead == 0 || e.ahead+bytes <= maxEncodedBytes
}

// endEncoding removes the call's request from the queue. It is called when the request is in the
// output, or when the call has given up. The caller holds the connection's lock.
func (c *clientCall) endEncoding() {
	e := c.encoders
	if e == nil {
		return
	}
	if c.waits {
		e.waiting = slices.DeleteFunc(e.waiting, func(other *clientCall) bool { return other == c })
		c.waits, c.ahead = false, 0
	}
	e.ahead -= c.ahead
	c.encoders, c.ahead = nil, 0
	e.admit()
}

func (e *encodeQueue) admit() {
	for len(e.waiting) > 0 && (e.closed || e.hasRoom(e.waiting[0].ahead)) {
		next := e.waiting[0]
		e.waiting[0] = nil
		e.waiting = e.waiting[1:]
		next.waits = false
		e.ahead += next.ahead
		next.signal <- struct{}{}
	}
}

// close wakes all calls in the queue, which then find that the connection has ended.
func (e *encodeQueue) close() {
	e.closed = true
	e.admit()
}

// encode encodes a call's request, unless m is nil. A long request waits for its turn.
func (cc *clientConn) encode(ctx context.Context, call *clientCall, m *rpccall.SizedMessage) (*batchio.Buffer, error) {
	if m == nil {
		return nil, nil //nolint:nilnil // a stream begins without a message
	}
	if most := cc.sendLimit(m.Size); most < m.Size {
		return nil, rpccall.TooLargeError("creditrpc: trying to send message", m.Size, most)
	}
	if m.Size >= minQueuedEncoding {
		if err := cc.awaitTurn(ctx, call, m.Size); err != nil {
			return nil, err
		}
	}
	b, err := marshal(m)
	if err != nil {
		cc.Mu.Lock()
		call.endEncoding()
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
	call.endEncoding()
	select {
	case <-call.signal: // drop a signal that came meanwhile
	default:
	}
	return status.FromContextError(ctx.Err()).Err()
}
