package tcp

import (
	"cmp"
	"context"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// call is a server's call in the framing named calls. The connection's goroutine delivers the
// client's messages; a handler's goroutine answers.
type call struct {
	stack.ServerCall
	conn   *serverConn
	method *stack.Method // nil if the server lacks the method

	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   func() // ends ctx and stops its timer

	// Only the connection's goroutine uses the following fields.
	request    []byte // a unary request, until its handler decodes it
	hasRequest bool   // whether the unary request has arrived
	started    bool   // whether a handler was started

	messages   chan []byte   // messages of a stream, from reader to handler; closed after the client's last message
	answered   chan struct{} // closed after the server's end frame was sent
	done       chan struct{} // closed when both end frames were sent
	openHalves atomic.Int32  // how many ends have not sent their end frame
}

func newCall(c *serverConn, opened callHead) *call {
	k := &call{
		ServerCall: stack.ServerCall{FullMethod: opened.method}, conn: c, method: c.server.Find(opened.method),
		answered: make(chan struct{}), done: make(chan struct{}),
	}
	k.openHalves.Store(2)
	k.ctx, k.cancel = context.WithCancelCause(c.ctx)
	k.stop = func() { k.cancel(nil) }
	if opened.timeout > 0 {
		ctx, cancel := context.WithTimeout(k.ctx, opened.timeout)
		k.ctx, k.stop = ctx, func() { cancel(); k.cancel(nil) }
	}
	if opened.metadata != nil {
		k.ctx = metadata.NewIncomingContext(k.ctx, opened.metadata)
	}
	k.ctx = grpc.NewContextWithServerTransportStream(k.ctx, k)
	switch {
	case k.method == nil:
		k.finish(nil, status.Newf(codes.Unimplemented, "this server has no operation %s", opened.method))
	case k.method.Kind != stack.Unary:
		k.messages = make(chan []byte, streamWindow)
		k.start(k.runStreamHandler)
	}
	return k
}

func (k *call) start(answer func()) {
	k.started = true
	k.conn.server.handlers.Go(answer)
}

// deliver passes a client's message to the handler. After the answer it ignores messages.
func (k *call) deliver(body []byte) {
	if isClosed(k.answered) {
		k.conn.reader.buffers.put(body)
		return
	}
	switch {
	case k.messages != nil:
		select {
		case k.messages <- body:
		case <-k.answered:
		case <-k.conn.ctx.Done():
		}
	case k.hasRequest:
		k.abort(status.New(codes.Internal, "a unary call must have exactly one message"))
	default:
		k.request, k.hasRequest = body, true
	}
}

// halfClose handles the client's end frame. The client sends no messages after it.
func (k *call) halfClose() {
	switch {
	case k.messages != nil:
		close(k.messages)
	case isClosed(k.answered):
	case !k.hasRequest:
		k.abort(status.New(codes.Internal, "a unary call must have exactly one message"))
	default:
		k.start(k.runUnaryHandler)
	}
	k.endSide()
}

// abort fails the call because the client broke a rule. The handler's context gets the cause why.
func (k *call) abort(why *status.Status) {
	switch {
	case isClosed(k.answered):
	case k.started:
		k.cancel(why.Err())
	default:
		k.finish(k.conn.reader.buffers.get(), why)
	}
}

// endSide records that one side has ended. When both sides have ended, the connection is idle
// again.
func (k *call) endSide() {
	if k.openHalves.Add(-1) == 0 {
		k.conn.endCall(inCall)
		close(k.done)
	}
}

// finish ends the call. It appends the end frame to frame, and sends the result.
func (k *call) finish(frame []byte, end *status.Status) {
	k.stop()
	_ = k.conn.write(appendEnd(frame, end, k.Trailer())) // the connection's reader will notice a failed write
	close(k.answered)
	k.endSide()
}

func (k *call) runUnaryHandler() {
	decode := func(m any) error { return unmarshal(k.request, m) }
	reply, err := k.method.Unary.Handler(k.method.Service, k.ctx, decode, nil)
	buffers := k.conn.reader.buffers
	buffers.put(k.request)
	k.request = nil

	frame, headErr := k.appendHead(buffers.get(), ifMetadata)
	if err = cmp.Or(err, headErr); err == nil {
		frame, err = appendFrame(frame, kindMessage, reply)
	}
	k.finish(frame, rpccall.StatusOf(err))
}

func (k *call) runStreamHandler() {
	err := k.method.Stream.Handler(k.method.Service, serverStream{k})
	frame, headErr := k.appendHead(k.conn.reader.buffers.get(), ifMetadata)
	k.finish(frame, rpccall.StatusOf(cmp.Or(err, headErr)))
}

type headRule bool

const (
	ifMetadata headRule = false // send the head only if there is metadata
	alwaysSend headRule = true  // always send the head: the handler called SendHeader
)

// appendHead appends the head frame, at most once per call.
func (k *call) appendHead(frame []byte, rule headRule) ([]byte, error) {
	header, first := k.TakeHeader()
	if !first || len(header) == 0 && rule == ifMetadata {
		return frame, nil
	}
	return appendHead(frame, header)
}

func (k *call) SendHeader(md metadata.MD) error {
	if err := k.SetHeader(md); err != nil {
		return err
	}
	frame, err := k.appendHead(k.conn.reader.buffers.get(), alwaysSend)
	if err != nil {
		return err
	}
	return k.send(frame)
}

func (k *call) send(frame []byte) error {
	if err := k.conn.write(frame); err != nil {
		return status.Errorf(codes.Unavailable, "send to %s: %v", k.conn.raw.RemoteAddr(), err)
	}
	return nil
}

type serverStream struct{ *call }

var _ grpc.ServerStream = serverStream{}

func (s serverStream) Context() context.Context { return s.ctx }

// SetTrailer implements grpc.ServerStream, whose SetTrailer cannot return an error.
func (s serverStream) SetTrailer(md metadata.MD) { _ = s.call.SetTrailer(md) }

func (s serverStream) SendMsg(m any) error {
	if s.ctx.Err() != nil {
		return s.endError()
	}
	frame, err := s.appendHead(s.conn.reader.buffers.get(), ifMetadata)
	if err != nil {
		return err
	}
	if frame, err = appendFrame(frame, kindMessage, m); err != nil {
		return err
	}
	return s.send(frame)
}

func (s serverStream) RecvMsg(m any) error {
	select {
	case body, more := <-s.messages:
		if !more {
			return io.EOF
		}
		defer s.conn.reader.buffers.put(body)
		return unmarshal(body, m)
	case <-s.ctx.Done():
		return s.endError()
	}
}

func (s serverStream) endError() error { return rpccall.StatusOf(context.Cause(s.ctx)).Err() }
