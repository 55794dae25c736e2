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
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// clientStream is a streaming call as its caller sees it. Behind it are one or, where
// servers refuse it before they have begun, several attempts.
type clientStream struct {
	client   *Client
	method   string
	ctx      context.Context
	desc     *grpc.StreamDesc
	info     callInfo
	alias    *buffer // what the last message read may point into
	read     bool    // the one message of a client-streaming call has come
	conclude sync.Once

	initial call                 // the first attempt
	current atomic.Pointer[call] // the attempt that counts
	again   sync.Mutex           // held while another attempt takes its place
	retries int                  // guarded by again
	stop    func() bool          // ends the watch over ctx; guarded by again

	// Guarded by the lock of the current attempt's connection, and only changed
	// while that attempt goes on.
	sentAll bool
	sent    replay
}

var _ grpc.ClientStream = (*clientStream)(nil)

// NewStream begins a streaming call, as generated code does.
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
	// The one message of a response has no next read to be valid until.
	info.alias = c.opts.alias && desc.ServerStreams
	if c.opts.stats != nil {
		ctx = c.observe(ctx, method, &info, &stats.Begin{IsClientStream: desc.ClientStreams, IsServerStream: desc.ServerStreams})
	}
	s := &clientStream{client: c, method: method, ctx: ctx, desc: desc, info: info}
	s.initial.beStream(&s.info)
	s.current.Store(&s.initial)
	if err := s.begin(&s.initial); err != nil {
		s.finished(err)
		return nil, err
	}
	s.watch()
	return s, nil
}

// beStream readies a zero call to be one attempt at a stream.
func (c *call) beStream(info *callInfo) {
	c.streaming, c.keepFields = true, true
	c.signal, c.drained, c.headers = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	c.assembler.limit = info.maxReceive
	c.h2.Owner = c
	c.queue = c.first[:0]
}

// begin opens an attempt, and sends again what earlier ones had sent.
func (s *clientStream) begin(c *call) error {
	fields, err := s.client.callFields(s.ctx, s.method, &s.info)
	if err != nil {
		return err
	}
	cc, err := s.client.openOnAny(s.ctx, c, s.method, &s.info, fields)
	if err != nil {
		return err
	}
	s.resend(cc, c)
	s.current.Store(c)
	cc.flush()
	cc.mu.Unlock()
	if s.info.observer != nil {
		s.info.observer.opened(cc, fields)
	}
	return nil
}

// watch ends the call when its context does.
func (s *clientStream) watch() {
	s.again.Lock()
	defer s.again.Unlock()
	s.stop = context.AfterFunc(s.ctx, func() {
		s.again.Lock()
		c := s.current.Load()
		s.again.Unlock()
		c.conn.cancel(c, s.ctx.Err())
		s.finished(s.result())
	})
}

// finished does, once, what follows the end of the call.
func (s *clientStream) finished(err error) {
	s.conclude.Do(func() {
		s.again.Lock()
		c, stop := s.current.Load(), s.stop
		s.again.Unlock()
		if stop != nil {
			stop()
		}
		if c.conn != nil {
			c.conn.mu.Lock()
			s.sent.drop()
			c.conn.mu.Unlock()
			s.fillOptions(c)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		for _, f := range s.info.onFinish {
			f(err)
		}
		if o := s.info.observer; o != nil {
			if c.conn != nil {
				o.ended(c)
			}
			o.finish(err)
		}
	})
}

func (s *clientStream) fillOptions(c *call) {
	if s.info.peer != nil {
		*s.info.peer = *c.conn.peer
	}
	if s.info.header != nil {
		*s.info.header = toMetadata(c.header)
	}
	if s.info.trailer != nil {
		*s.info.trailer = toMetadata(c.trailer)
	}
}

// result is the error that an ended call stands for: io.EOF where all went well.
func (s *clientStream) result() error {
	c := s.current.Load()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if c.status == nil {
		return io.EOF
	}
	return c.err()
}

// Context is the call's context.
func (s *clientStream) Context() context.Context { return s.ctx }

// Header waits for the metadata that opens the response.
func (s *clientStream) Header() (metadata.MD, error) {
	for {
		c := s.current.Load()
		<-c.headers
		md, err := c.responseHeader()
		if !errors.Is(err, errRefused) {
			return md, err
		}
		s.retry(c)
	}
}

func (c *call) responseHeader() (metadata.MD, error) {
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

// Trailer is the metadata that ended the response; empty before its end.
func (s *clientStream) Trailer() metadata.MD {
	c := s.current.Load()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return toMetadata(c.trailer)
}

// CloseSend tells the server that no more messages follow.
func (s *clientStream) CloseSend() error {
	for {
		c := s.current.Load()
		cc := c.conn
		cc.mu.Lock()
		if !c.ended && !s.sentAll {
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

// SendMsg sends a message and waits until it is on its way; m may be used again
// when it returns. It returns io.EOF when the call has ended: RecvMsg says why.
func (s *clientStream) SendMsg(m any) error {
	c := s.current.Load()
	c.conn.mu.Lock()
	ended, sentAll := c.ended && !c.refused(), s.sentAll
	c.conn.mu.Unlock()
	switch {
	case ended:
		return io.EOF
	case sentAll:
		return status.Error(codes.Internal, "fastgrpc: SendMsg after CloseSend")
	}
	b, err := encodeMessage(s.info.codec, s.info.compressor, m, s.info.maxSend)
	if err != nil {
		s.giveUp(err)
		s.finished(err)
		return err
	}
	if s.info.observer != nil {
		s.info.observer.payload(m, b.sizes())
	}
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

// send is called with the lock of the attempt's connection held, and gives it back.
func (s *clientStream) send(c *call, b *buffer) error {
	cc := c.conn
	last := !s.desc.ClientStreams
	s.sentAll = s.sentAll || last
	s.sent.keep(c, b)
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

// RecvMsg receives a message. It returns io.EOF when the call has ended well, and
// its status otherwise.
func (s *clientStream) RecvMsg(v any) error {
	err := s.receive(v)
	if err == nil && !s.desc.ServerStreams {
		err = s.expectEnd()
	}
	if err != nil {
		s.finished(err)
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
		if errors.Is(err, io.EOF) && !s.desc.ServerStreams && !s.read {
			return status.Error(codes.Internal, "fastgrpc: response without a message")
		}
		return err
	}
	s.read = true
	c, packed := s.current.Load(), len(m.data)
	if s.info.observer != nil {
		s.info.observer.answered(c)
	}
	s.alias, err = decodeMessage(s.info.codec, c.received, &m, v, decodeOptions{limit: s.info.maxReceive, alias: s.info.alias})
	if err != nil {
		s.giveUp(err)
		return err
	}
	if s.info.observer != nil {
		s.info.observer.received(v, sizes{len(m.data), packed})
	}
	return nil
}

// expectEnd waits for the status behind the one message of a response.
func (s *clientStream) expectEnd() error {
	m, err := s.next()
	switch {
	case errors.Is(err, io.EOF):
		s.finished(nil)
		return nil
	case err != nil:
		return err
	}
	m.release()
	err = status.Error(codes.Internal, "fastgrpc: more than one message in a unary response")
	s.giveUp(err)
	return err
}

// giveUp ends the call from this side, and what was received and not read with it.
func (s *clientStream) giveUp(err error) {
	s.again.Lock()
	defer s.again.Unlock()
	c := s.current.Load()
	cc := c.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	c.unprocessed = false // no more attempts
	c.fail(status.Convert(err))
	c.drop()
	cc.afterEnd()
	cc.flush()
}

// next waits for a message, or for the end of the call.
func (s *clientStream) next() (message, error) {
	for {
		c := s.current.Load()
		m, err := s.nextOf(c)
		if !errors.Is(err, errRefused) {
			return m, err
		}
		s.retry(c)
	}
}

func (s *clientStream) nextOf(c *call) (message, error) {
	cc := c.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	for {
		if len(c.queue) > 0 {
			s.sent.drop()
			m := c.queue[0]
			c.queue[0] = message{}
			c.queue = c.queue[1:]
			credit := m.credit
			if len(c.queue) == 0 {
				c.queue = c.first[:0]
				credit += c.heldCredit
				c.heldCredit = 0
			}
			if !c.ended {
				cc.h2.Consume(&c.h2, credit)
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
