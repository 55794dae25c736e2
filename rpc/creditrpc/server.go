package creditrpc

import (
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	rpccall "wirelab.dev/rpc/call"
)

// ErrServerStopped is returned by Serve after Stop or GracefulStop was called before it. It is
// grpc-go's.
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

// RegisterService registers a service. Generated code calls it. Like grpc-go's, it panics on
// a mistake in the program: impl does not implement the service, the service is registered
// twice, or Serve has been called.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.base.RegisterService(desc, impl)
}

// GetServiceInfo returns the registered services.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.base.GetServiceInfo() }

// Serve accepts connections until the server stops or the listener fails. It closes the
// listener. After Stop or GracefulStop it returns nil, once they are done.
func (s *Server) Serve(lis net.Listener) error { return s.base.Serve(lis) }

// Stop closes listeners and connections at once. It cancels open calls; their clients get
// Unavailable. It does not wait for handlers.
func (s *Server) Stop() { s.base.Stop() }

// GracefulStop takes no new calls and returns when the open ones have ended. A Stop
// meanwhile ends them.
func (s *Server) GracefulStop() { s.base.GracefulStop() }
