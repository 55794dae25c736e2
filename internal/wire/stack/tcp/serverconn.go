package tcp

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/wire/conn"
	rpccall "wirelab.dev/rpc/call"
)

// These are the phases of a server's connection, which Shutdown and Close check.
const (
	betweenCalls int32 = iota // between two calls
	inCall                    // during a call
	runsHandler               // a handler runs on the connection's own goroutine
	closed
)

const (
	// writeStepBytes limits the bytes of one write. With small writes, a slow peer can be
	// distinguished from a peer that has stopped reading.
	writeStepBytes = 256 << 10
	// closeReasonTimeout limits the time that a peer has to read why its connection closes.
	closeReasonTimeout = time.Second
)

// serverConn is one connection of a server. Its goroutine reads frames and runs plain calls. Other
// calls run on another goroutine, so that the reader notices when the peer disconnects.
type serverConn struct {
	server *server
	raw    net.Conn
	parser parser
	reader *frameReader
	phase  atomic.Int32
	done   chan struct{} // closed when the goroutine has ended

	readWait, writeWait peerWait

	ctx    context.Context // ends when the connection ends
	cancel context.CancelFunc

	plainCtx context.Context // context for the handlers of plain calls
	request  []byte          // request of the plain call
	decode   func(any) error // decodes the bytes in request

	call *call // the latest call in the calls framing

	gated atomic.Bool // the current call counts in the server's gate
}

func newServerConn(s *server, raw net.Conn) *serverConn {
	c := &serverConn{server: s, raw: raw, parser: newServerParser(), done: make(chan struct{})}
	c.reader = newFrameReader(raw, &c.parser, s.settings.poolsBuffersAt(tuning.Server))
	c.reader.wait = &c.readWait
	ctx := peer.NewContext(s.ctx, &peer.Peer{Addr: raw.RemoteAddr(), LocalAddr: raw.LocalAddr()})
	c.ctx, c.cancel = context.WithCancel(ctx)
	if s.only != nil {
		c.plainCtx = grpc.NewContextWithServerTransportStream(c.ctx, plainCall{method: s.only.FullName})
	}
	c.decode = func(message any) error { return unmarshal(c.request, message) }
	return c
}

// Start implements rpccall.Conn.
func (c *serverConn) Start(running *sync.WaitGroup) { running.Go(c.serve) }

func (c *serverConn) serve() {
	defer close(c.done)
	defer c.server.conns.Remove(c)
	defer c.leaveGate()
	defer c.cancel()
	defer func() { _ = c.raw.Close() }()
	if secured, is := c.raw.(*tls.Conn); is && conn.ServerHandshake(c.ctx, secured) != nil {
		return // ServerHandshake has closed the connection
	}
	for {
		ev, err := c.reader.next()
		if err != nil {
			c.refuse(err)
			return
		}
		if !c.handle(ev) {
			return
		}
	}
}

func (c *serverConn) handle(ev event) bool {
	switch ev.kind {
	case callBegins:
		return c.beginCall()
	case plainMessage:
		return c.answerPlain(ev.body)
	case head:
		opened, err := parseCall(ev.body)
		c.reader.buffers.put(ev.body)
		if err != nil {
			c.refuse(err)
			return false
		}
		c.call = newCall(c, opened)
	case message:
		c.call.deliver(ev.body)
	case end:
		c.call.halfClose()
	}
	return true
}

// beginCall waits until the previous call has ended, because a client may send the next call early.
// It reports whether to continue reading.
func (c *serverConn) beginCall() bool {
	if c.call != nil {
		select {
		case <-c.call.done:
		case <-c.ctx.Done():
			return false
		}
		c.call = nil
	}
	if !c.waitAtGate() {
		return false
	}
	if c.parser.stage == atFrame {
		c.reader.buffer()
	}
	return c.phase.CompareAndSwap(betweenCalls, inCall)
}

// waitAtGate waits until the call may start, if the option gate limits running calls.
func (c *serverConn) waitAtGate() bool {
	if c.server.gate == nil {
		return true
	}
	select {
	case c.server.gate <- struct{}{}: // the longest-waiting goroutine continues first
		c.gated.Store(true)
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *serverConn) leaveGate() {
	if c.server.gate != nil && c.gated.CompareAndSwap(true, false) {
		<-c.server.gate
	}
}

func (c *serverConn) endCall(from int32) bool {
	c.leaveGate()
	if !c.phase.CompareAndSwap(from, betweenCalls) {
		return false
	}
	if c.server.draining.Load() && c.phase.CompareAndSwap(betweenCalls, closed) {
		_ = c.raw.Close()
		return false
	}
	return true
}

// answerPlain runs a plain call and sends its answer. It reports whether to continue reading.
func (c *serverConn) answerPlain(request []byte) bool {
	if !c.phase.CompareAndSwap(inCall, runsHandler) {
		return false
	}
	c.request = request
	frame := c.runPlainHandler(c.reader.buffers.get())
	c.request = nil
	c.reader.buffers.put(request)
	return c.write(frame) == nil && c.endCall(runsHandler)
}

func (c *serverConn) runPlainHandler(frame []byte) []byte {
	only := c.server.only
	if only == nil {
		return appendPlainFailure(frame, status.Newf(codes.Unimplemented, "a plain call does not name its operation, and this server serves %d: "+
			"begin the call with the preamble (docs/wire-tcp.md), as tcp:framing=calls does", len(c.server.InOrder())))
	}
	reply, err := only.Unary.Handler(only.Service, c.plainCtx, c.decode, nil)
	if err == nil {
		frame, err = appendFrame(frame, kindPlain, reply)
	}
	if err != nil {
		return appendPlainFailure(frame, rpccall.StatusOf(err))
	}
	return frame
}

// write sends a frame and returns its buffer to the pool. Only one goroutine writes at a time:
// during a call the call's goroutine, otherwise the reader.
func (c *serverConn) write(frame []byte) error {
	defer c.reader.buffers.put(frame)
	for rest := frame; len(rest) > 0; {
		step := rest[:min(len(rest), writeStepBytes)]
		c.writeWait.begin()
		_, err := c.raw.Write(step)
		c.writeWait.end()
		if err != nil {
			return err
		}
		rest = rest[len(step):]
	}
	return nil
}

// refuse ends a connection. If err is a gRPC status, refuse first sends the status to the peer.
func (c *serverConn) refuse(err error) {
	why, ok := status.FromError(err)
	if !ok || c.phase.Load() == closed {
		return
	}
	c.sendReason(why)
	// Close only one direction: with unread bytes, a full close might destroy the answer.
	_ = c.raw.(interface{ CloseWrite() error }).CloseWrite() // both TCP and TLS connections have this method
	_ = c.raw.SetReadDeadline(time.Now().Add(closeReasonTimeout))
	_, _ = io.Copy(io.Discard, c.raw)
}

// sendReason tells the peer, in an answer to the current call, why the connection will close.
func (c *serverConn) sendReason(why *status.Status) {
	if c.call != nil {
		c.call.abort(why)
		select {
		case <-c.call.answered:
		case <-c.ctx.Done():
			return
		case <-time.After(closeReasonTimeout):
			return
		}
	}
	if c.parser.stage == atPlainBody {
		_ = c.write(appendPlainFailure(nil, why))
	} else if c.call == nil {
		_ = c.write(appendEnd(nil, why, nil))
	}
}

// plainCall is the grpc.ServerTransportStream of a plain call. It refuses metadata.
type plainCall struct{ method string }

var _ grpc.ServerTransportStream = plainCall{}

func (p plainCall) Method() string               { return p.method }
func (p plainCall) SetHeader(metadata.MD) error  { return errPlainLacks("no metadata") }
func (p plainCall) SendHeader(metadata.MD) error { return errPlainLacks("no metadata") }
func (p plainCall) SetTrailer(metadata.MD) error { return errPlainLacks("no metadata") }
