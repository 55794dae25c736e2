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

	"wirelab.dev/internal/stack"
)

// streamWindow is how many messages of a stream a connection holds for a
// reader that is slower than its peer. Then TCP's own window fills.
const streamWindow = 4

// NewStream begins a stream. It holds a connection until it has been read to
// its end, or ctx ends.
func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.settings.framing == framingPlain {
		return nil, plainLacks("no " + stack.KindOf(desc).String())
	}
	conn, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	carried, _ := metadata.FromOutgoingContext(ctx)
	begin, err := appendCall(conn.inbox.shelf.take(), callHead{method: method, timeout: timeoutOf(ctx), metadata: carried})
	if err != nil {
		c.give(conn)
		return nil, err
	}
	conn.reusable, conn.framing = false, spokenCalls
	s := &clientStream{
		client: c, conn: conn, ctx: ctx, desc: desc, wishes: wishesOf(options),
		ended: make(chan struct{}), gone: make(chan struct{}),
	}
	conn.inbox.buffer()
	conn.parser.expectFrames(s.wishes.maxAnswerBytes)
	if !desc.ClientStreams {
		s.begin = begin // goes with the only message
		s.next = conn.inbox.next
	} else {
		if err := conn.send(begin); err != nil {
			c.give(conn)
			return nil, c.explain(ctx, err)
		}
		s.next = s.readAhead()
	}
	s.release = context.AfterFunc(ctx, func() { _ = s.letGo(status.FromContextError(ctx.Err()).Err(), spoilt) })
	return s, nil
}

// clientStream is the caller's end of a stream. One goroutine may send while
// another receives.
type clientStream struct {
	client *client
	conn   *clientConn
	ctx    context.Context
	desc   *grpc.StreamDesc
	wishes wishes

	begin      []byte      // what has not been sent of the call's beginning
	halfClosed atomic.Bool // all was sent that will be

	next    func() (event, error) // what the server says next
	heard   bool                  // the server has said something
	peeked  *event                // what Header came across
	header  metadata.MD
	trailer metadata.MD
	ended   chan struct{} // closed when the server's end was seen

	release func() bool // stops waiting for the context's end
	once    sync.Once
	gone    chan struct{} // closed when the stream has let its connection go
	err     error         // why; set before gone is closed
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (s *clientStream) Context() context.Context { return s.ctx }

func (s *clientStream) SendMsg(m any) error {
	select {
	case <-s.ended:
		return io.EOF // RecvMsg tells why
	case <-s.gone:
		return io.EOF
	default:
	}
	begin := s.begin
	if begin == nil {
		begin = s.conn.inbox.shelf.take()
	}
	frame, err := appendMessage(begin, m)
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

// CloseSend never fails; what it meets, RecvMsg tells.
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

// Header waits for the server's first word.
func (s *clientStream) Header() (metadata.MD, error) {
	if s.heard || s.isGone() {
		return s.header, nil
	}
	said, err := s.nextEvent()
	if err != nil {
		return nil, s.fail(err)
	}
	if said.what != head {
		s.peeked = &said
	} else if err := s.takeHeader(said); err != nil {
		return nil, s.fail(err)
	}
	return s.header, nil
}

func (s *clientStream) takeHeader(said event) (err error) {
	s.header, err = parseMetadata(said.body)
	s.conn.inbox.shelf.put(said.body)
	return err
}

func (s *clientStream) Trailer() metadata.MD { return s.trailer }

func (s *clientStream) RecvMsg(m any) error {
	said, err := s.nextMessage()
	if err == nil {
		err = unmarshal(said.body, m)
		s.conn.inbox.shelf.put(said.body)
		if err != nil {
			return s.fail(err)
		}
	}
	if s.desc.ServerStreams {
		return err
	}
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Internal, "the call ended well without its answer")
	}
	if err != nil {
		return err
	}
	// There is one answer; the status behind it belongs to it.
	switch _, err := s.nextMessage(); {
	case err == nil:
		return s.fail(errMalformed("a second message answers a call that has one answer"))
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// nextMessage returns the next message, or the error with which the stream
// ended: io.EOF where that was well.
func (s *clientStream) nextMessage() (event, error) {
	for !s.isGone() {
		said, err := s.nextEvent()
		if err != nil {
			return event{}, s.fail(err)
		}
		switch said.what {
		case message:
			return said, nil
		case head:
			if err := s.takeHeader(said); err != nil {
				return event{}, s.fail(err)
			}
		case end:
			return event{}, s.takeEnd(said)
		}
	}
	return event{}, s.err
}

func (s *clientStream) nextEvent() (event, error) {
	if said := s.peeked; said != nil {
		s.peeked = nil
		return *said, nil
	}
	s.heard = true
	return s.next()
}

// takeEnd ends the stream as the server did.
func (s *clientStream) takeEnd(said event) error {
	final, trailer, err := parseEnd(said.body)
	if err != nil {
		return s.fail(err)
	}
	s.trailer = trailer
	s.wishes.fulfil(s.header, s.trailer)
	err = io.EOF
	if final != nil {
		err = final.Err()
	}
	// A server may end a stream to which the client had more to say. The
	// connection is given up then: a SendMsg may be under way on it.
	state := spoilt
	if s.release() && s.halfClosed.Load() {
		state = clean
	}
	return s.letGo(err, state)
}

// fail ends the stream because of what was met, and returns what the caller is
// told.
func (s *clientStream) fail(err error) error {
	s.release()
	return s.letGo(s.client.explain(s.ctx, err), spoilt)
}

// ending is how a stream leaves its connection.
type ending bool

const (
	clean  ending = true
	spoilt ending = false
)

// letGo gives the connection back, once, and returns the first reason there
// was to do so. Any goroutine may call it.
func (s *clientStream) letGo(reason error, how ending) error {
	s.once.Do(func() {
		s.err = reason
		s.conn.reusable = how == clean
		close(s.gone)
		s.client.give(s.conn)
	})
	return s.err
}

func (s *clientStream) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}
