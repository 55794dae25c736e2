package creditrpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
)

// clientCall is one attempt of a call. That of a unary call is used again.
type clientCall struct {
	stream  link.Stream
	streams bool

	// Guarded by the connection's lock until the call is over.
	inbox           rpccall.Queue[message]
	header, trailer metadata.MD
	err             error
	over            bool

	encoders *encoders // where its request counts until it has been sent, or nil
	ahead    int       // bytes that it counts for, or will
	waits    bool      // for its turn

	signal chan struct{} // something came, or the call is over; before it began: it may encode
	sent   chan struct{} // of streams: all was sent
	headed chan struct{} // of streams: closed when the header has come, or nothing will
}

func (c *clientCall) wake() {
	if c.streams {
		rpccall.WakeOne(c.signal)
		rpccall.WakeOne(c.sent)
	}
}

func (c *clientCall) headerCame() {
	if c.headed != nil {
		rpccall.CloseOnce(c.headed)
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

// maxTries bounds the connections that a call tries which refuse it before they begin it.
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
	info.tell(cc, call)
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

// begin begins a call: a unary one with its message, a stream with none. It returns with the
// connection's lock free.
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
			release(b)
			c.leave(cc)
			continue
		}
		if !cc.link.Names(method) {
			err = status.Errorf(codes.Internal, "creditrpc: the method %q: its name is too long, or there are too many", method)
		} else {
			err = checkMeta(md, int(cc.link.Peer().MaxMeta))
		}
		if err != nil {
			call.encoded()
			cc.Mu.Unlock()
			release(b)
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

// recycle keeps a unary call that is over, or was never begun, for another.
func (c *Client) recycle(call *clientCall) {
	drop(&call.inbox)
	signal := call.signal
	*call = clientCall{signal: signal}
	c.calls.Put(call)
}

// clientStream is a streaming call.
type clientStream struct {
	call   clientCall
	cc     *clientConn
	ctx    context.Context
	desc   *grpc.StreamDesc
	info   callInfo
	stop   func() bool // ends the watch over ctx
	got    bool        // the only message of an answer has come
	closed bool        // nothing more is sent
	told   bool        // the options know how it ended; guarded by the connection's lock
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (c *Client) newStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts []grpc.CallOption) (grpc.ClientStream, error) {
	info, err := c.readOptions(opts)
	s := &clientStream{ctx: ctx, desc: desc, info: info}
	if err == nil {
		s.call = clientCall{streams: true, signal: make(chan struct{}, 1), sent: make(chan struct{}, 1), headed: make(chan struct{})}
		s.call.stream.Owner = &s.call
		s.cc, err = c.begin(ctx, &s.call, method, &info, nil)
	}
	if err != nil {
		info.Finished(err)
		return nil, err
	}
	s.stop = context.AfterFunc(ctx, func() { s.cc.cancel(&s.call, ctx.Err()) })
	return s, nil
}

// Context returns the call's context.
func (s *clientStream) Context() context.Context { return s.ctx }

// Header waits for the server's metadata, or for the call's end: without any, RecvMsg tells
// why.
func (s *clientStream) Header() (metadata.MD, error) {
	<-s.call.headed
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	return s.call.header, nil
}

// Trailer returns the metadata that came with the call's end.
func (s *clientStream) Trailer() metadata.MD {
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	return s.call.trailer
}

// CloseSend ends what this end sends.
func (s *clientStream) CloseSend() error {
	s.cc.Mu.Lock()
	defer s.cc.Mu.Unlock()
	s.closed = true
	s.cc.link.End(&s.call.stream)
	s.cc.Flush()
	return nil
}

// SendMsg sends a message, and waits until flow control has let it go. It returns io.EOF
// where the call is over, or nil if the client sends a single message, as generated code
// wants it: RecvMsg says why. Any other error ends the call.
func (s *clientStream) SendMsg(v any) error {
	err := s.send(v)
	switch {
	case errors.Is(err, io.EOF) && !s.desc.ClientStreams:
		return nil
	case err != nil && !errors.Is(err, io.EOF):
		s.cc.cancel(&s.call, err)
		_ = s.ended(err)
	}
	return err
}

func (s *clientStream) send(v any) error {
	b, err := encode(v, s.info.MaxSend)
	if err != nil {
		return err
	}
	c, stream := s.cc, &s.call.stream
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch most := c.link.Peer().MaxMessage; {
	case s.closed:
		b.Release()
		return status.Error(codes.Internal, "creditrpc: SendMsg after CloseSend")
	case uint64(len(b.Data)) > most:
		defer b.Release()
		return rpccall.TooLarge("creditrpc: trying to send message", len(b.Data), int(most))
	case s.call.over:
		b.Release()
		return io.EOF
	}
	last := !s.desc.ClientStreams
	s.closed = last
	c.link.Send(stream, batchio.Payload{Data: b.Data, Owner: b}, last)
	for !stream.Idle() && !s.call.over {
		c.Flush()
		c.Mu.Unlock()
		<-s.call.sent
		c.Mu.Lock()
	}
	c.Flush()
	if s.call.over && s.call.err != nil {
		return io.EOF
	}
	return nil
}

// RecvMsg receives a message. It returns io.EOF after the last, and the call's error where
// it has one.
func (s *clientStream) RecvMsg(v any) error {
	m, err := s.next()
	if err != nil {
		return s.ended(err)
	}
	if err = decode(&m, v, s.info.MaxReceive); err != nil {
		s.cc.cancel(&s.call, context.Canceled)
		return s.ended(err)
	}
	if s.desc.ServerStreams {
		return nil
	}
	s.got = true
	m, err = s.next() // the only message must be followed by the end
	switch {
	case err == nil:
		m.release()
		s.cc.cancel(&s.call, context.Canceled)
		return s.ended(status.Error(codes.Internal, "creditrpc: more than one message in a unary response"))
	case errors.Is(err, io.EOF):
		_ = s.ended(nil)
		return nil
	}
	return s.ended(err)
}

// ended tells the options, once, how the call ended.
func (s *clientStream) ended(err error) error {
	s.cc.Mu.Lock()
	first := !s.told
	if s.told = true; first {
		s.info.tell(s.cc, &s.call)
	}
	s.cc.Mu.Unlock()
	switch {
	case !first:
		return err
	case errors.Is(err, io.EOF):
		s.info.Finished(nil)
	default:
		s.info.Finished(err)
	}
	s.stop()
	return err
}

// next waits for a message, or for the end.
func (s *clientStream) next() (message, error) {
	for {
		s.cc.Mu.Lock()
		m, ok := s.call.inbox.Take()
		if ok {
			s.cc.link.Read(&s.call.stream, m.Message)
			s.cc.Flush()
		}
		over := s.call.over
		s.cc.Mu.Unlock()
		switch {
		case ok:
			return m, nil
		case !over:
			<-s.call.signal
		case s.call.err != nil:
			return m, s.error()
		case !s.desc.ServerStreams && !s.got:
			return m, status.Error(codes.Internal, "creditrpc: response without a message")
		default:
			return m, io.EOF
		}
	}
}

// error is why the call failed.
func (s *clientStream) error() error {
	if errors.Is(s.call.err, errRefused) {
		return status.Error(codes.Unavailable, errRefused.Error())
	}
	return s.call.err
}
