package fastgrpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// clientStream is a streaming call. It makes another attempt when a server refuses the
// call before processing it.
type clientStream struct {
	client     *Client
	method     string
	ctx        context.Context
	desc       *grpc.StreamDesc
	info       callInfo
	alias      *buffer // the last message read may point into it
	gotMessage bool    // the single response of a client-streaming call has come
	finishOnce sync.Once

	initial call                 // the first attempt
	current atomic.Pointer[call] // the latest attempt
	retryMu sync.Mutex           // held while another attempt takes its place
	retries int                  // guarded by again
	stop    func() bool          // ends the watch over ctx; guarded by again

	// Guarded by the lock of the current attempt's connection, and changed only until
	// that attempt ends.
	sentAll bool
	sent    replayBuffer
}

var _ grpc.ClientStream = (*clientStream)(nil)

// NewStream begins a streaming call. Generated code calls it.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.stream != nil {
		return c.stream(ctx, desc, nil, method, opts...)
	}
	return c.streamWith(ctx, desc, nil, method, opts...)
}

func (c *Client) streamWith(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	var info callInfo
	if err := info.readOptions(c, opts); err != nil {
		return nil, err
	}
	// An aliased message is valid until the next read. A single response has none.
	info.alias = c.opts.alias && desc.ServerStreams
	if c.opts.stats != nil {
		ctx = c.observe(ctx, method, &info, desc)
	}
	s := &clientStream{client: c, method: method, ctx: ctx, desc: desc, info: info}
	s.initial.initStream(&s.info)
	s.current.Store(&s.initial)
	if err := s.begin(&s.initial); err != nil {
		s.finish(err)
		return nil, err
	}
	s.watch()
	return s, nil
}

// initStream prepares a zero call as an attempt of a streaming call.
func (c *call) initStream(info *callInfo) {
	c.streaming, c.wantMetadata = true, true
	c.signal, c.drained, c.headers = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	c.inbox.init(info.maxReceive)
	c.h2.Owner = c
}

// begin opens an attempt and resends what earlier attempts had sent.
func (s *clientStream) begin(c *call) error {
	fields, err := s.client.callFields(s.ctx, s.method, &s.info)
	if err != nil {
		return err
	}
	cc, err := s.client.openStream(s.ctx, c, s.method, &s.info, fields)
	if err != nil {
		return err
	}
	s.resend(cc, c)
	s.current.Store(c)
	cc.flush()
	cc.mu.Unlock()
	s.info.observer.opened(cc, fields)
	return nil
}

// watch cancels the call when its context ends.
func (s *clientStream) watch() {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	s.stop = context.AfterFunc(s.ctx, func() {
		s.retryMu.Lock()
		c := s.current.Load()
		s.retryMu.Unlock()
		c.conn.cancel(c, s.ctx.Err())
		s.finish(s.result())
	})
}

// finish releases what the call holds and runs its end-of-call callbacks, once.
func (s *clientStream) finish(err error) {
	s.finishOnce.Do(func() {
		s.retryMu.Lock()
		c, stop := s.current.Load(), s.stop
		s.retryMu.Unlock()
		if stop != nil {
			stop()
		}
		if c.conn != nil {
			c.conn.mu.Lock()
			s.sent.drop()
			c.conn.mu.Unlock()
			s.info.responded(c)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		for _, f := range s.info.onFinish {
			f(err)
		}
		s.info.observer.end(err)
	})
}

// result returns the error of an ended call: io.EOF if it succeeded.
func (s *clientStream) result() error {
	c := s.current.Load()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if c.status == nil {
		return io.EOF
	}
	return c.err()
}

// Context returns the call's context.
func (s *clientStream) Context() context.Context { return s.ctx }

// Header waits for the response's header metadata.
func (s *clientStream) Header() (metadata.MD, error) {
	for {
		c := s.current.Load()
		<-c.headers
		md, err := c.headerOrRefused()
		if !errors.Is(err, errRefused) {
			return md, err
		}
		s.retry(c)
	}
}

func (c *call) headerOrRefused() (metadata.MD, error) {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	switch {
	case c.refused():
		return nil, errRefused
	case c.header == nil && c.status != nil:
		return nil, c.err()
	}
	return toMetadata(c.header), nil
}

// Trailer returns the response's trailer metadata; it is empty before the response ends.
func (s *clientStream) Trailer() metadata.MD {
	c := s.current.Load()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return toMetadata(c.trailer)
}

// CloseSend tells the server that no more messages follow. It does not do so for a call
// that was cancelled before: the server could still answer that with success.
func (s *clientStream) CloseSend() error {
	for {
		c := s.current.Load()
		cc := c.conn
		cc.mu.Lock()
		if !c.ended && !s.sentAll && s.ctx.Err() == nil {
			s.sentAll = true
			cc.h2.CloseSend(&c.h2)
			cc.flush()
		}
		refused := c.refused()
		cc.mu.Unlock()
		if !refused || !s.retry(c) {
			return nil
		}
	}
}

// SendMsg sends a message and waits until flow control has let it into the connection's
// output; the caller may then reuse m. It returns io.EOF when the call has ended:
// RecvMsg returns the reason.
func (s *clientStream) SendMsg(m any) error {
	c := s.current.Load()
	c.conn.mu.Lock()
	ended, sentAll := c.ended && !c.refused(), s.sentAll
	c.conn.mu.Unlock()
	switch {
	case ended || s.ctx.Err() != nil: // watch ends the call
		return io.EOF
	case sentAll:
		return status.Error(codes.Internal, "fastgrpc: SendMsg after CloseSend")
	}
	b, err := encodeMessage(s.info.codec, s.info.compressor, m, s.info.maxSend)
	if err != nil {
		s.abort(err)
		s.finish(err)
		return err
	}
	s.info.observer.sent(m, b.sizes())
	for {
		c := s.current.Load()
		c.conn.mu.Lock()
		if !c.ended {
			return s.send(c, b)
		}
		c.conn.mu.Unlock()
		if !s.retry(c) {
			b.Release()
			return io.EOF
		}
	}
}

// send is called with the lock of the attempt's connection held, and unlocks it.
func (s *clientStream) send(c *call, b *buffer) error {
	cc := c.conn
	last := !s.desc.ClientStreams
	s.sentAll = s.sentAll || last
	s.sent.add(c, b)
	cc.h2.SendData(&c.h2, h2.Payload{Data: b.data, Owner: b}, last)
	cc.flush()
	for c.h2.Queued() && !c.ended {
		cc.mu.Unlock()
		<-c.drained
		cc.mu.Lock()
	}
	ended, refused := c.ended, c.refused()
	cc.mu.Unlock()
	if ended && !last && !(refused && s.retry(c)) {
		return io.EOF
	}
	return nil
}

// RecvMsg receives a message. It returns io.EOF when the call has succeeded, and its
// status when it has failed.
func (s *clientStream) RecvMsg(v any) error {
	err := s.receive(v)
	if err == nil && !s.desc.ServerStreams {
		err = s.receiveEnd()
	}
	if err != nil {
		s.finish(err)
	}
	return err
}

func (s *clientStream) receive(v any) error {
	if s.alias != nil {
		s.alias.Release()
		s.alias = nil
	}
	m, err := s.next()
	if err != nil {
		if errors.Is(err, io.EOF) && !s.desc.ServerStreams && !s.gotMessage {
			return status.Error(codes.Internal, "fastgrpc: response without a message")
		}
		return err
	}
	s.gotMessage = true
	c, info := s.current.Load(), &s.info
	info.observer.headerReceived(c)
	s.alias, err = decodeMessage(info.codec, c.received, &m, v, decodeOptions{info.maxReceive, info.alias, info.observer})
	if err != nil {
		s.abort(err)
	}
	return err
}

// receiveEnd waits for the status that follows a single response message.
func (s *clientStream) receiveEnd() error {
	m, err := s.next()
	switch {
	case errors.Is(err, io.EOF):
		s.finish(nil)
		return nil
	case err != nil:
		return err
	}
	m.release()
	err = status.Error(codes.Internal, "fastgrpc: more than one message in a unary response")
	s.abort(err)
	return err
}

// abort ends the call with err and drops its unread messages.
func (s *clientStream) abort(err error) {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	c := s.current.Load()
	cc := c.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	c.unprocessed = false // no more attempts
	c.fail(status.Convert(err))
	c.drop()
	cc.callsEnded()
	cc.flush()
}

// next waits for a message, or for the end of the call.
func (s *clientStream) next() (message, error) {
	for {
		c := s.current.Load()
		m, err := s.nextFrom(c)
		if !errors.Is(err, errRefused) {
			return m, err
		}
		s.retry(c)
	}
}

func (s *clientStream) nextFrom(c *call) (message, error) {
	cc := c.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	for {
		if m, ok := c.take(); ok {
			s.sent.drop()
			if !c.ended {
				cc.h2.Consume(&c.h2, m.credit)
				cc.flush()
			}
			return m, nil
		}
		switch {
		case c.refused():
			return message{}, errRefused
		case c.ended && c.status == nil:
			c.assembler.drop()
			return message{}, io.EOF
		case c.ended:
			c.assembler.drop()
			return message{}, c.err()
		}
		cc.mu.Unlock()
		<-c.signal
		cc.mu.Lock()
	}
}
