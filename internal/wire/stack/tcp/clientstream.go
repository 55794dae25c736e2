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

// NewStream begins a stream, which holds a connection until its end was read or ctx ends.
func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.settings.framing == framingPlain {
		return nil, errPlainHas("no " + stack.KindOf(desc).String())
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
	conn.parser.expect(atFrame, s.options.MaxReceive)
	if !desc.ClientStreams {
		s.begin = begin // goes with the only message
		s.next = conn.reader.next
	} else {
		if err := conn.send(begin); err != nil {
			c.release(conn)
			return nil, c.explain(ctx, err)
		}
		s.next = s.readAhead()
	}
	s.release = context.AfterFunc(ctx, func() { _ = s.detach(status.FromContextError(ctx.Err()).Err(), broken) })
	return s, nil
}

// clientStream is the caller's end. One goroutine may send while another receives.
type clientStream struct {
	client  *client
	conn    *clientConn
	ctx     context.Context
	desc    *grpc.StreamDesc
	options callOptions

	begin      []byte      // the call's head, until it is sent
	halfClosed atomic.Bool // the caller has finished sending

	next    func() (event, error) // reads the server's next event
	started bool                  // an event was read
	peeked  *event                // an event that Header read and RecvMsg must handle
	header  metadata.MD
	trailer metadata.MD
	ended   chan struct{} // closed when the server's end has come

	release  func() bool // stops waiting for the context's end
	once     sync.Once
	detached chan struct{} // closed when the stream has released its connection
	err      error         // the reason; set before detached is closed
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (s *clientStream) Context() context.Context { return s.ctx }

func (s *clientStream) SendMsg(m any) error {
	if isClosed(s.ended) || isClosed(s.detached) {
		return io.EOF // RecvMsg returns the reason
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
	if s.conn.send(frame) != nil {
		return io.EOF
	}
	if !s.desc.ClientStreams {
		s.halfClosed.Store(true)
	}
	return nil
}

// CloseSend never fails: RecvMsg returns its errors.
func (s *clientStream) CloseSend() error {
	if s.halfClosed.Load() {
		return nil
	}
	if s.conn.send(appendHalfClose(s.begin)) == nil {
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
	} else if err := s.takeHeader(ev); err != nil {
		return nil, s.fail(err)
	}
	return s.header, nil
}

func (s *clientStream) takeHeader(ev event) (err error) {
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
	// The only answer is complete when its status was read.
	switch _, err := s.nextMessage(); {
	case err == nil:
		return s.fail(errMalformed("a second message answers a call that has one answer"))
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// nextMessage returns the next message, or the stream's error: io.EOF for the status OK.
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
			if err := s.takeHeader(ev); err != nil {
				return event{}, s.fail(err)
			}
		case end:
			return event{}, s.takeEnd(ev)
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

// takeEnd ends the stream with the server's status.
func (s *clientStream) takeEnd(ev event) error {
	final, trailer, err := parseEnd(ev.body)
	if err != nil {
		return s.fail(err)
	}
	s.trailer = trailer
	s.options.store(s.header, s.trailer)
	err = io.EOF
	if final != nil {
		err = final.Err()
	}
	// A server may end a stream early. The connection cannot be used again then: a SendMsg may be
	// running on it.
	state := broken
	if s.release() && s.halfClosed.Load() {
		state = clean
	}
	return s.detach(err, state)
}

// fail ends the stream with an error, and returns the error for the caller.
func (s *clientStream) fail(err error) error {
	s.release()
	return s.detach(s.client.explain(s.ctx, err), broken)
}

// connState says whether a stream's connection can carry another call.
type connState bool

const (
	clean  connState = true
	broken connState = false
)

// detach releases the connection once, from any goroutine, and returns the first call's reason.
func (s *clientStream) detach(reason error, state connState) error {
	s.once.Do(func() {
		s.err = reason
		s.conn.reusable = state == clean
		close(s.detached)
		s.client.release(s.conn)
	})
	return s.err
}

// readAhead starts a goroutine that reads the server's events, so that SendMsg notices when the
// server ends the stream. It ends with the stream or the client. RecvMsg reads from next.
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

// A readResult holds the results of one read.
type readResult struct {
	event event
	err   error
}

func (r readResult) isLast() bool { return r.err != nil || r.event.kind == end }
