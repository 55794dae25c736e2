package creditrpc

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// ErrServerStopped is grpc-go's error. Serve returns it after Stop or GracefulStop.
var ErrServerStopped = grpc.ErrServerStopped

var errStopping = errors.New("creditrpc: server is stopping")

// A Server serves registered services on any number of listeners. Its methods may be called
// concurrently, but services must be registered before Serve.
type Server struct {
	opts  serverOptions
	conns rpccall.Conns[*serverConn]
	base  rpccall.Server[*serverConn, *serverCall]
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// NewServer returns a server with no services and no listeners.
func NewServer(opts ...ServerOption) *Server {
	s := &Server{opts: defaultServerOptions()}
	for _, o := range opts {
		o(&s.opts)
	}
	s.base.Workers.Serve = (*serverCall).serve
	s.base.Init(rpccall.ServerConfig[*serverConn]{
		Library: "creditrpc", Creds: s.opts.creds, HandshakeTimeout: s.opts.handshakeTimeout,
		Stopping: errStopping, Prepare: s.opts.prepare,
		NewConn: func(nc net.Conn, auth credentials.AuthInfo, _ time.Duration) *serverConn {
			return newServerConn(s, nc, auth)
		},
	}, &s.conns)
	return s
}

// RegisterService registers a service. Generated code calls it. As in grpc-go, it panics if impl
// does not implement the service, if the service is registered already, or if Serve was called.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.base.RegisterService(desc, impl)
}

// GetServiceInfo returns the registered services.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.base.GetServiceInfo() }

// Serve accepts connections until the server stops or the listener fails. It closes the listener.
// If Stop or GracefulStop is called, Serve returns nil after that method has finished.
func (s *Server) Serve(lis net.Listener) error { return s.base.Serve(lis) }

// Stop closes listeners and connections at once. It cancels open calls, whose clients get the code
// Unavailable. It does not wait for handlers.
func (s *Server) Stop() { s.base.Stop() }

// GracefulStop accepts no new calls and returns when all open calls have ended. Calling Stop
// meanwhile ends the open calls.
func (s *Server) GracefulStop() { s.base.GracefulStop() }

// A serverConn is a connection of a server.
type serverConn struct {
	conn
	server *Server

	// Guarded by the connection's lock.
	calls map[*serverCall]struct{} // calls whose handlers have not returned
	ready []*serverCall            // calls to be run after the lock is released
}

func newServerConn(s *Server, nc net.Conn, auth credentials.AuthInfo) *serverConn {
	c := &serverConn{server: s, calls: map[*serverCall]struct{}{}}
	c.init(c, nc, auth, &s.opts.limits)
	return c
}

// OnRequest begins a call. The handler of a streaming call runs at once.
func (c *serverConn) OnRequest(id uint32, name string, begin frame.RequestStart) *link.Stream {
	m := c.server.base.Lookup(name)
	if m == nil {
		c.link.Refuse(id, frame.Ending{Code: uint64(codes.Unimplemented), Message: []byte(c.server.base.DescribeUnknown(name))})
		c.Counters.CallsStarted++
		c.CallEnded(false)
		return nil
	}
	call := &serverCall{conn: c, method: m}
	call.Context.Init(call)
	if t := time.Duration(min(begin.Timeout, uint64(maxTimeout.Microseconds()))) * time.Microsecond; t > 0 && t < maxTimeout {
		call.SetDeadline(time.Now().Add(t))
	}
	if len(begin.Meta) > 0 {
		call.meta = append([]byte(nil), begin.Meta...)
	}
	if m.Stream != nil {
		call.signal, call.drained = make(chan struct{}, 1), make(chan struct{}, 1)
		c.ready = append(c.ready, call)
	}
	call.stream.Owner, call.stream.HoldsCredit = call, m.Unary != nil
	c.calls[call] = struct{}{}
	c.Counters.CallsStarted++
	return &call.stream
}

// OnMessage keeps a message for the handler.
func (c *serverConn) OnMessage(s *link.Stream, m link.Message) {
	call := s.Owner.(*serverCall)
	call.inbox.Put(c.retain(m, call.signal != nil || !m.Last))
	call.wake()
}

// OnTooLong ends a call whose message exceeds the server's limit.
func (c *serverConn) OnTooLong(s *link.Stream, bytes int) {
	call := s.Owner.(*serverCall)
	call.requestErr = rpccall.TooLargeError("creditrpc: received message", bytes, c.server.opts.maxReceive)
	call.requestEnded()
}

// OnEnd runs the handler of a unary call, whose request is complete.
func (c *serverConn) OnEnd(s *link.Stream) { s.Owner.(*serverCall).requestEnded() }

// OnCancel cancels a call that the client has given up.
func (c *serverConn) OnCancel(s *link.Stream) { s.Owner.(*serverCall).abort(context.Canceled) }

// OnSent lets the handler of a stream send its next message.
func (c *serverConn) OnSent(s *link.Stream) { rpccall.WakeOne(s.Owner.(*serverCall).drained) }

// OnHeader, OnStatus and OnGoodbye do nothing: only clients get these events.
func (c *serverConn) OnHeader(*link.Stream, []byte)        {}
func (c *serverConn) OnStatus(*link.Stream, *frame.Ending) {}
func (c *serverConn) OnGoodbye()                           {}

// StreamsChanged closes a draining connection after the last call.
func (c *serverConn) StreamsChanged() {
	if c.link.Draining() && c.link.OpenStreams() == 0 && len(c.calls) == 0 && c.Err() == nil {
		c.CloseLocked(errStopping)
	}
}

// StartCalls passes the ready calls to the workers.
func (c *serverConn) StartCalls() {
	ready := c.ready // only the reader appends to it
	c.server.base.Workers.Push(ready)
	clear(ready)
	c.ready = ready[:0]
}

// ConnLost cancels all calls, and drops the answers of handlers that have returned.
func (c *serverConn) ConnLost(error) {
	for _, s := range c.link.All() {
		c.link.Cancel(s)
	}
	for call := range c.calls {
		call.abort(context.Canceled)
	}
}

// OnClosed removes the connection from the server's list.
func (c *serverConn) OnClosed() {
	c.end(nil)
	c.timer.Stop()
	c.server.conns.Remove(c)
}

// Drain accepts no more calls, and closes the connection after the last call.
func (c *serverConn) Drain() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.link.Goodbye()
	c.StreamsChanged()
	c.Flush()
}

// release removes a call whose handler has returned or will not run. The lock is held.
func (c *serverConn) release(call *serverCall, ok bool) {
	if _, there := c.calls[call]; !there {
		return
	}
	delete(c.calls, call)
	releaseAll(&call.inbox)
	c.link.Release(&call.stream)
	c.CallEnded(ok)
	c.StreamsChanged()
}
