package creditrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// A clientCall is one attempt of a call. Those of unary calls are used again.
type clientCall struct {
	stream  link.Stream
	streams bool

	// Guarded by the connection's lock until the call is over.
	inbox           rpccall.Queue[message]
	header, trailer metadata.MD
	err             error
	over            bool

	encoders *encoders // counts the request until it has been sent; nil if none does
	ahead    int       // bytes of the request that encoders counts, or will
	waits    bool      // for its turn to encode

	signal  chan struct{} // something came, or the call is over; before it began: it may encode
	drained chan struct{} // of streams: all was sent
	headers chan struct{} // of streams: closed when the header has come, or nothing will
}

func (c *clientCall) wake() {
	if c.streams {
		rpccall.WakeOne(c.signal)
		rpccall.WakeOne(c.drained)
	}
}

func (c *clientCall) headerCame() {
	if c.headers != nil {
		rpccall.CloseOnce(c.headers)
	}
}

// finish ends the call, once, with the connection's lock held.
func (c *clientCall) finish(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	c.encoded()
	c.headerCame()
	if c.streams {
		c.wake()
		return
	}
	c.signal <- struct{}{}
}

// maxTries bounds the connections that a call tries if they refuse it before it begins.
const maxTries = 5

func (c *Client) invoke(ctx context.Context, method string, req, reply any, opts []grpc.CallOption) (err error) {
	info, err := c.readOptions(opts)
	if len(info.OnFinish) > 0 {
		defer func() { info.Finished(err) }()
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
		c.recycle(call)
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
	info.responded(cc, call)
	several := call.inbox.Len() > 1
	answer, answered := call.inbox.Take()
	switch err = call.err; {
	case err != nil:
		answer.release()
	case several:
		answer.release()
		err = status.Error(codes.Internal, "creditrpc: more than one message in a unary response")
	case !answered:
		err = status.Error(codes.Internal, "creditrpc: response without a message")
	default:
		err = decode(&answer, reply, info.MaxReceive)
	}
	c.recycle(call)
	return err
}

// begin begins a call: a unary one with its message, a stream without one. It does not hold
// the connection's lock when it returns.
func (c *Client) begin(ctx context.Context, call *clientCall, method string, info *callInfo, m *rpccall.Measured) (*clientConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	for {
		cc, err := c.pick(ctx, info.WaitForReady)
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
		if cc.Err() != nil || cc.link.Draining() {
			call.encoded()
			cc.Mu.Unlock()
			releaseIfAny(b)
			c.leave(cc)
			continue
		}
		if !cc.link.Names(method) {
			err = status.Errorf(codes.Internal, "creditrpc: method %q: the name is too long, or the client uses too many methods", method)
		} else {
			err = checkMeta(md, int(cc.link.Peer().MaxMeta))
		}
		if err != nil {
			call.encoded()
			cc.Mu.Unlock()
			releaseIfAny(b)
			return nil, err
		}
		meta := appendMeta(md)
		timeout := uint64(0)
		if deadline, ok := ctx.Deadline(); ok {
			timeout = micros(deadline)
		}
		cc.link.Begin(&call.stream, method, timeout, meta)
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

// releaseIfAny releases a buffer, which may be nil.
func releaseIfAny(b *batchio.Buffer) {
	if b != nil {
		b.Release()
	}
}

// recycle keeps a unary call that has ended, or was never begun, for another one.
func (c *Client) recycle(call *clientCall) {
	drop(&call.inbox)
	signal := call.signal
	*call = clientCall{signal: signal}
	c.calls.Put(call)
}
