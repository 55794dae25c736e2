package tcp

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// The phases of a server's connection, which Shutdown and Close go by.
const (
	idle     int32 = iota // between two calls
	busy                  // in a call
	handling              // in a handler on the connection's own goroutine
	closed
)

const (
	// writeStepBytes is the most that is written at once, so that a slow peer
	// can be told from one that has stopped reading.
	writeStepBytes = 256 << 10
	// farewell bounds how long a connection is kept so that its peer can read
	// why it is being closed.
	farewell = time.Second
)

// serverConn is one connection of a server. Its goroutine reads; plain calls
// run on it, others on one of their own, so that a peer that hangs up is noticed.
type serverConn struct {
	server *server
	raw    net.Conn
	parser serverParser
	inbox  *inbox
	phase  atomic.Int32
	done   chan struct{} // closed when the goroutine has ended

	reading, writing spell

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	plainCtx context.Context // of plain calls' handlers
	request  []byte          // the plain call's
	decode   func(any) error // reads request

	call *call // the latest in the calls framing
}

func newServerConn(s *server, raw net.Conn) *serverConn {
	c := &serverConn{server: s, raw: raw, done: make(chan struct{})}
	c.inbox = newInbox(raw, &c.parser, s.settings.pooled)
	c.inbox.spell = &c.reading
	ctx := peer.NewContext(s.ctx, &peer.Peer{Addr: raw.RemoteAddr(), LocalAddr: raw.LocalAddr()})
	c.ctx, c.cancel = context.WithCancel(ctx)
	if s.only != nil {
		c.plainCtx = grpc.NewContextWithServerTransportStream(c.ctx, plainCall{method: s.only.FullName})
	}
	c.decode = func(message any) error { return unmarshal(c.request, message) }
	return c
}

// serve reads the connection until it ends.
func (c *serverConn) serve() {
	defer close(c.done)
	defer c.server.forget(c)
	defer c.cancel()
	defer func() { _ = c.raw.Close() }()
	if conn, is := c.raw.(*tls.Conn); is && stack.Shake(c.ctx, conn) != nil {
		return // the peer has been told why
	}
	for {
		said, err := c.inbox.next()
		if err != nil {
			c.refuse(err)
			return
		}
		if !c.hear(said) {
			return
		}
	}
}

// hear acts on what the client said, and tells whether to read on.
func (c *serverConn) hear(said event) bool {
	switch said.what {
	case callBegins:
		return c.beginCall()
	case plainMessage:
		return c.answerPlain(said.body)
	case head:
		opened, err := parseCall(said.body)
		c.inbox.shelf.put(said.body)
		if err != nil {
			c.refuse(err)
			return false
		}
		c.call = openCall(c, opened)
	case message:
		c.call.deliver(said.body)
	case end:
		c.call.halfClose()
	}
	return true
}

// beginCall waits until the call before has ended: a client may send the next
// one early.
func (c *serverConn) beginCall() bool {
	if c.call != nil {
		select {
		case <-c.call.over:
		case <-c.ctx.Done():
			return false
		}
		c.call = nil
	}
	if c.parser.stage == atFrame {
		c.inbox.buffer()
	}
	return c.phase.CompareAndSwap(idle, busy)
}

// endCall tells whether the connection goes on.
func (c *serverConn) endCall(from int32) bool {
	if !c.phase.CompareAndSwap(from, idle) {
		return false
	}
	if c.server.draining.Load() && c.phase.CompareAndSwap(idle, closed) {
		_ = c.raw.Close()
		return false
	}
	return true
}

// answerPlain runs a plain call to its end.
func (c *serverConn) answerPlain(request []byte) bool {
	if !c.phase.CompareAndSwap(busy, handling) {
		return false
	}
	c.request = request
	frame := c.plainAnswer(c.inbox.shelf.take())
	c.request = nil
	c.inbox.shelf.put(request)
	return c.write(frame) == nil && c.endCall(handling)
}

// plainAnswer calls the handler and returns the frame of its answer.
func (c *serverConn) plainAnswer(frame []byte) []byte {
	only := c.server.only
	if only == nil {
		return appendPlainFailure(frame, c.server.noSingle())
	}
	reply, err := only.Unary.Handler(only.Service, c.plainCtx, c.decode, nil)
	if err == nil {
		frame, err = appendPlain(frame, reply)
	}
	if err != nil {
		return appendPlainFailure(frame, stack.StatusOf(err))
	}
	return frame
}

// write sends a frame from the shelf and puts it back. One goroutine at a time
// writes: the reader between calls, and a call's own in one.
func (c *serverConn) write(frame []byte) error {
	defer c.inbox.shelf.put(frame)
	for rest := frame; len(rest) > 0; {
		step := rest[:min(len(rest), writeStepBytes)]
		c.writing.begin()
		_, err := c.raw.Write(step)
		c.writing.end()
		if err != nil {
			return err
		}
		rest = rest[len(step):]
	}
	return nil
}

// refuse ends a connection that cannot go on. Where it is not simply over, the
// peer is told why.
func (c *serverConn) refuse(err error) {
	why, told := status.FromError(err)
	if !told || c.phase.Load() == closed {
		return
	}
	c.lastWord(why)
	// Closing with bytes unread would reset the connection, and the peer
	// might never see the answer.
	_ = c.raw.(interface{ CloseWrite() error }).CloseWrite() // TCP and TLS have it
	_ = c.raw.SetReadDeadline(time.Now().Add(farewell))
	_, _ = io.Copy(io.Discard, c.raw)
}

// lastWord tells the peer why the connection is being closed, as the answer to
// the call it is in.
func (c *serverConn) lastWord(why *status.Status) {
	if c.call != nil {
		c.call.abort(why)
		select {
		case <-c.call.answered:
		case <-c.ctx.Done():
			return
		case <-time.After(farewell):
			return
		}
	}
	if c.parser.stage == atPlainBody {
		_ = c.write(appendPlainFailure(nil, why))
	} else if c.call == nil {
		_ = c.write(appendEnd(nil, why, nil))
	}
}

// plainCall is what a handler finds in the context of a plain call.
type plainCall struct{ method string }

var _ grpc.ServerTransportStream = plainCall{}

func (p plainCall) Method() string               { return p.method }
func (p plainCall) SetHeader(metadata.MD) error  { return plainLacks("no metadata") }
func (p plainCall) SendHeader(metadata.MD) error { return plainLacks("no metadata") }
func (p plainCall) SetTrailer(metadata.MD) error { return plainLacks("no metadata") }
