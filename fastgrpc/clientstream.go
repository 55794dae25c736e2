package fastgrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// clientStream is a streaming call as its caller sees it.
type clientStream struct {
	call
	ctx      context.Context
	stop     func() bool // ends the watch over ctx
	desc     *grpc.StreamDesc
	info     callInfo
	alias    *buffer // what the last message read may point into
	sentAll  bool    // guarded by the connection's lock
	read     bool    // the one message of a client-streaming call has come
	conclude sync.Once
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
	s := &clientStream{ctx: ctx, desc: desc, info: info}
	s.call = call{
		streaming: true, keepFields: true,
		signal: make(chan struct{}, 1), drained: make(chan struct{}, 1), headers: make(chan struct{}),
		assembler: assembler{limit: info.maxReceive},
	}
	s.call.h2.Owner = &s.call
	s.call.queue = s.call.first[:0]
	if err := s.open(c, method); err != nil {
		s.finished(err)
		return nil, err
	}
	return s, nil
}

func (s *clientStream) open(c *Client, method string) error {
	fields, err := c.callFields(s.ctx, method, &s.info)
	if err != nil {
		return err
	}
	cc, err := c.openOnAny(s.ctx, &s.call, method, &s.info, fields)
	if err != nil {
		return err
	}
	cc.flush()
	cc.mu.Unlock()
	if s.info.observer != nil {
		s.info.observer.opened(cc, fields)
	}
	stop := context.AfterFunc(s.ctx, func() {
		cc.cancel(&s.call, s.ctx.Err())
		s.finished(s.result())
	})
	cc.mu.Lock()
	s.stop = stop
	cc.mu.Unlock()
	return nil
}

// finished does, once, what follows the end of the call.
func (s *clientStream) finished(err error) {
	s.conclude.Do(func() {
		if s.call.conn != nil {
			s.call.conn.mu.Lock()
			stop := s.stop
			s.call.conn.mu.Unlock()
			if stop != nil {
				stop()
			}
			s.fillOptions()
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		for _, f := range s.info.onFinish {
			f(err)
		}
		if o := s.info.observer; o != nil {
			if s.call.conn != nil {
				o.ended(&s.call)
			}
			o.finish(err)
		}
	})
}

func (s *clientStream) fillOptions() {
	if s.info.peer != nil {
		*s.info.peer = *s.call.conn.peer
	}
	if s.info.header != nil {
		*s.info.header = toMetadata(s.call.header)
	}
	if s.info.trailer != nil {
		*s.info.trailer = toMetadata(s.call.trailer)
	}
}

// result is the error that an ended call stands for: io.EOF where all went well.
func (s *clientStream) result() error {
	cc := s.call.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if s.call.status == nil {
		return io.EOF
	}
	return s.call.err()
}

// Context is the call's context.
func (s *clientStream) Context() context.Context { return s.ctx }

// Header waits for the metadata that opens the response.
func (s *clientStream) Header() (metadata.MD, error) {
	<-s.call.headers
	cc := s.call.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if s.call.header == nil && s.call.status != nil {
		return nil, s.call.err()
	}
	return toMetadata(s.call.header), nil
}

// Trailer is the metadata that ended the response; empty before its end.
func (s *clientStream) Trailer() metadata.MD {
	cc := s.call.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return toMetadata(s.call.trailer)
}

// CloseSend tells the server that no more messages follow.
func (s *clientStream) CloseSend() error {
	cc := s.call.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if !s.sentAll && !s.call.ended {
		s.sentAll = true
		cc.h2.CloseSend(&s.call.h2)
		cc.flush()
	}
	return nil
}

// SendMsg sends a message and waits until it is on its way; m may be used again
// when it returns. It returns io.EOF when the call has ended: RecvMsg says why.
func (s *clientStream) SendMsg(m any) error {
	cc := s.call.conn
	cc.mu.Lock()
	ended, sentAll := s.call.ended, s.sentAll
	cc.mu.Unlock()
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
		s.info.observer.payload(m, len(b.data)-prefixLen)
	}
	last := !s.desc.ClientStreams
	cc.mu.Lock()
	defer cc.mu.Unlock()
	s.sentAll = s.sentAll || last
	cc.h2.SendData(&s.call.h2, h2.Payload{Data: b.data, Owner: b}, last)
	cc.flush()
	for s.call.h2.Queued() && !s.call.ended {
		cc.mu.Unlock()
		<-s.call.drained
		cc.mu.Lock()
	}
	if s.call.ended && !last {
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
	size := len(m.data)
	s.alias, err = decodeMessage(s.info.codec, s.call.received, &m, v, decodeOptions{limit: s.info.maxReceive, alias: s.info.alias})
	if err != nil {
		s.giveUp(err)
		return err
	}
	if s.info.observer != nil {
		s.info.observer.received(v, size)
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
	cc := s.call.conn
	cc.mu.Lock()
	defer cc.mu.Unlock()
	s.call.fail(status.Convert(err))
	s.call.drop()
	cc.afterEnd()
	cc.flush()
}

// next waits for a message, or for the end of the call.
func (s *clientStream) next() (message, error) {
	cc := s.call.conn
	c := &s.call
	cc.mu.Lock()
	defer cc.mu.Unlock()
	for {
		if len(c.queue) > 0 {
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
		if c.ended {
			c.assembler.drop()
			if c.status == nil {
				return message{}, io.EOF
			}
			return message{}, c.err()
		}
		cc.mu.Unlock()
		<-c.signal
		cc.mu.Lock()
	}
}
