package tcp

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

	"wirelab.dev/internal/wire/stack"
)

// NewStream begins a stream. The stream uses a connection until the stream's end is read or ctx
// ends.
func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.settings.framing == framingPlain {
		return nil, errPlainLacks("no " + stack.KindOf(desc).String())
	}
	conn, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	begin, err := appendCall(conn.reader.buffers.get(), callHead{method: method, timeout: timeoutOf(ctx), metadata: md})
	if err != nil {
		c.release(conn)
		return nil, err
	}
	conn.reusable, conn.framing = false, protocolCalls
	s := &clientStream{
		client: c, conn: conn, ctx: ctx, desc: desc, options: readCallOptions(options),
		ended: make(chan struct{}), detached: make(chan struct{}),
	}
	conn.reader.buffer()
	conn.parser.beginAnswer(atFrame, s.options.MaxReceive)
	if !desc.ClientStreams {
		s.begin = begin // sent together with the only message
		s.next = conn.reader.next
	} else {
		if err := conn.writeFrame(begin); err != nil {
			c.release(conn)
			return nil, c.explain(ctx, err)
		}
		s.next = s.readAhead()
	}
	s.release = context.AfterFunc(ctx, func() { _ = s.releaseConn(status.FromContextError(ctx.Err()).Err(), unusableConn) })
	return s, nil
}

// clientStream is the client's end of a stream. One goroutine may send while another receives.
type clientStream struct {
	client  *client
	conn    *clientConn
	ctx     context.Context
	desc    *grpc.StreamDesc
	options callOptions

	begin      []byte      // encoded head of the call, until it is sent
	halfClosed atomic.Bool // the caller will send no more messages

	next    func() (event, error) // reads the server's next event
	started bool                  // an event was read
	peeked  *event                // an event that Header has read; RecvMsg must handle it
	header  metadata.MD
	trailer metadata.MD
	ended   chan struct{} // closed when the server's end frame has arrived

	release  func() bool // stops watching the context
	once     sync.Once
	detached chan struct{} // closed when the stream has released its connection
	err      error         // error that ended the stream; set before detached is closed
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (s *clientStream) Context() context.Context { return s.ctx }

func (s *clientStream) SendMsg(m any) error {
	if isClosed(s.ended) || isClosed(s.detached) {
		return io.EOF // RecvMsg returns the error
	}
	begin := s.begin
	if begin == nil {
		begin = s.conn.reader.buffers.get()
	}
	frame, err := appendFrame(begin, kindMessage, m)
	if err != nil {
		return s.fail(err)
	}
	if !s.desc.ClientStreams {
		s.begin = nil
		frame = appendHalfClose(frame)
	}
	if s.conn.writeFrame(frame) != nil {
		return io.EOF
	}
	if !s.desc.ClientStreams {
		s.halfClosed.Store(true)
	}
	return nil
}

// CloseSend never fails: RecvMsg returns the error.
func (s *clientStream) CloseSend() error {
	if s.halfClosed.Load() {
		return nil
	}
	if s.conn.writeFrame(appendHalfClose(s.begin)) == nil {
		s.halfClosed.Store(true)
	}
	s.begin = nil
	return nil
}

// Header waits for the server's first event.
func (s *clientStream) Header() (metadata.MD, error) {
	if s.started || isClosed(s.detached) {
		return s.header, nil
	}
	ev, err := s.nextEvent()
	if err != nil {
		return nil, s.fail(err)
	}
	if ev.kind != head {
		s.peeked = &ev
	} else if err := s.handleHeader(ev); err != nil {
		return nil, s.fail(err)
	}
	return s.header, nil
}

func (s *clientStream) handleHeader(ev event) (err error) {
	s.header, err = parseMetadata(ev.body)
	s.conn.reader.buffers.put(ev.body)
	return err
}

func (s *clientStream) Trailer() metadata.MD { return s.trailer }

func (s *clientStream) RecvMsg(m any) error {
	ev, err := s.nextMessage()
	if err == nil {
		err = unmarshal(ev.body, m)
		s.conn.reader.buffers.put(ev.body)
		if err != nil {
			return s.fail(err)
		}
	}
	if s.desc.ServerStreams {
		return err
	}
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Internal, "the call ended with status OK but without an answer")
	}
	if err != nil {
		return err
	}
	// The only answer is complete when the status after it has been read.
	switch _, err := s.nextMessage(); {
	case err == nil:
		return s.fail(errMalformed("a call with a single answer got a second one"))
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// nextMessage returns the next message, or the stream's error. io.EOF means status OK.
func (s *clientStream) nextMessage() (event, error) {
	for !isClosed(s.detached) {
		ev, err := s.nextEvent()
		if err != nil {
			return event{}, s.fail(err)
		}
		switch ev.kind {
		case message:
			return ev, nil
		case head:
			if err := s.handleHeader(ev); err != nil {
				return event{}, s.fail(err)
			}
		case end:
			return event{}, s.handleEnd(ev)
		}
	}
	return event{}, s.err
}

func (s *clientStream) nextEvent() (event, error) {
	if ev := s.peeked; ev != nil {
		s.peeked = nil
		return *ev, nil
	}
	s.started = true
	return s.next()
}

func (s *clientStream) handleEnd(ev event) error {
	final, trailer, err := parseEnd(ev.body)
	if err != nil {
		return s.fail(err)
	}
	s.trailer = trailer
	s.options.storeMetadata(s.header, s.trailer)
	err = io.EOF
	if final != nil {
		err = final.Err()
	}
	// If the server ends the stream early, the connection cannot be reused, because a SendMsg may
	// still write to it.
	state := unusableConn
	if s.release() && s.halfClosed.Load() {
		state = reusableConn
	}
	return s.releaseConn(err, state)
}

// fail ends the stream with an error. It returns the error for the caller.
func (s *clientStream) fail(err error) error {
	s.release()
	return s.releaseConn(s.client.explain(s.ctx, err), unusableConn)
}

// connState says whether a stream's connection can be reused.
type connState bool

const (
	reusableConn connState = true
	unusableConn connState = false
)

// releaseConn releases the connection once. It returns the reason from its first call. Any
// goroutine may call it.
func (s *clientStream) releaseConn(reason error, state connState) error {
	s.once.Do(func() {
		s.err = reason
		s.conn.reusable = state == reusableConn
		close(s.detached)
		s.client.release(s.conn)
	})
	return s.err
}

// readAhead starts a goroutine that reads the server's events, so that SendMsg notices the end of
// the stream. The function next passes the events to RecvMsg. The goroutine ends with the stream or
// client.
func (s *clientStream) readAhead() (next func() (event, error)) {
	results := make(chan readResult, streamWindow)
	go func() {
		for {
			var r readResult
			r.event, r.err = s.conn.reader.next()
			if r.isLast() {
				close(s.ended)
			}
			select {
			case results <- r:
			case <-s.detached:
				return
			case <-s.client.closed:
				return
			}
			if r.isLast() {
				return
			}
		}
	}()
	return func() (event, error) {
		select {
		case r := <-results:
			return r.event, r.err
		case <-s.detached:
			return event{}, s.err
		case <-s.client.closed:
			return event{}, errClientClosed
		}
	}
}

type readResult struct {
	event event
	err   error
}

func (r readResult) isLast() bool { return r.err != nil || r.event.kind == end }
