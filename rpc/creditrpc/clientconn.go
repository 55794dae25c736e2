package creditrpc

import (
	"errors"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// A clientConn is a connection of a client.
type clientConn struct {
	conn
	client  *Client
	greeted chan struct{} // closed when the server's Hello has come

	encoders encodeQueue // guarded by the connection's lock
}

func newClientConn(c *Client, nc net.Conn, auth credentials.AuthInfo) *clientConn {
	cc := &clientConn{client: c, greeted: make(chan struct{})}
	cc.init(cc, nc, auth, &c.opts.limits)
	return cc
}

// OnMessage passes a message to the call's caller.
func (cc *clientConn) OnMessage(s *link.Stream, m link.Message) {
	call := s.Owner.(*clientCall)
	call.answered = true
	call.signalHeader() // no header comes after a message
	if !call.streams {
		cc.link.MessageRead(s, m)
		if call.inbox.Len() > 1 { // two messages suffice to fail the call at its end
			m.Release()
			return
		}
	}
	call.inbox.Put(cc.retain(m, call.streams || !m.Last))
	call.wake()
}

// OnTooLong ends a call whose answer exceeds the client's limit.
func (cc *clientConn) OnTooLong(s *link.Stream, bytes int) {
	call := s.Owner.(*clientCall)
	cc.link.Cancel(s)
	call.finish(rpccall.TooLargeError("creditrpc: received message", bytes, cc.client.opts.maxReceive))
}

// OnHeader keeps the server's metadata.
func (cc *clientConn) OnHeader(s *link.Stream, meta []byte) {
	call := s.Owner.(*clientCall)
	call.header, call.answered = readMeta(meta), true
	call.signalHeader()
}

// OnEnd ends a call that has succeeded.
func (cc *clientConn) OnEnd(s *link.Stream) { s.Owner.(*clientCall).finish(nil) }

// OnStatus ends a call with the server's status.
func (cc *clientConn) OnStatus(s *link.Stream, e *frame.Ending) {
	call := s.Owner.(*clientCall)
	call.trailer = readMeta(e.Meta)
	call.finish(statusOf(e).Err())
}

// OnCancel ends a call that the server has not begun. The client then makes the call again on
// another connection.
func (cc *clientConn) OnCancel(s *link.Stream) { s.Owner.(*clientCall).finish(errRefused) }

// errRefused is the error of a call that no server has begun.
var errRefused = errors.New("creditrpc: the server accepts no more calls")

// OnSent lets the caller send the stream's next message, and lets other calls encode requests.
func (cc *clientConn) OnSent(s *link.Stream) {
	call := s.Owner.(*clientCall)
	call.endEncoding()
	rpccall.WakeOne(call.drained)
}

// OnGoodbye makes the next calls go to another connection.
func (cc *clientConn) OnGoodbye() { go cc.client.abandon(cc) } // abandon must take the client's lock first

// OnRequest does nothing: only servers get requests.
func (cc *clientConn) OnRequest(uint32, string, frame.RequestStart) *link.Stream { return nil }

// StreamsChanged closes greeted when the server's Hello has come. After a Goodbye, it closes the
// connection when the last call has ended.
func (cc *clientConn) StreamsChanged() {
	if cc.link.Peer().Version != 0 {
		rpccall.CloseOnce(cc.greeted)
	}
	if cc.link.Draining() && cc.link.OpenStreams() == 0 && cc.Err() == nil {
		cc.CloseLocked(errRefused)
	}
}

// StartCalls does nothing: only servers have handlers.
func (cc *clientConn) StartCalls() {}

// ConnLost ends all calls. If a unary call was never sent, the client makes that call again.
func (cc *clientConn) ConnLost(err error) {
	for _, s := range cc.link.All() {
		call := s.Owner.(*clientCall)
		lost := rpccall.WithCause(status.Newf(codes.Unavailable, "creditrpc: the connection was lost: %v", err), err)
		if errors.Is(err, ErrClosed) {
			lost = ErrClosed
		}
		if begun := cc.link.Cancel(s); !begun && !errors.Is(err, ErrClosed) {
			lost = errRefused
		}
		call.finish(lost)
	}
	cc.encoders.close()
	cc.end(err)
	go cc.client.abandon(cc)
}

// OnClosed removes the connection from the client's list.
func (cc *clientConn) OnClosed() {
	cc.timer.Stop()
	cc.client.conns.Remove(cc)
}

// cancel ends a call with an error, and cancels it on the server.
func (cc *clientConn) cancel(call *clientCall, err error) {
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	if call.over {
		return
	}
	cc.link.Cancel(&call.stream)
	call.finish(rpccall.StatusOf(err).Err())
	cc.StreamsChanged()
	cc.Flush()
}
