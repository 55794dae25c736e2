package fastgrpc

import (
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	rpccall "wirelab.dev/rpc/call"
)

// ErrServerStopped is returned by Serve if it is called after Stop or GracefulStop. It
// is grpc-go's.
var ErrServerStopped = grpc.ErrServerStopped

var errServerStopping = errors.New("fastgrpc: server is stopping")

// Server serves registered services on any number of listeners. Its methods may be
// called concurrently, but services must be registered before Serve.
type Server struct {
	opts serverOptions
	connSet[*serverConn]
	base rpccall.Server[*serverConn, *serverCall]
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// NewServer returns a server with no services and no listeners.
func NewServer(opts ...ServerOption) *Server {
	s := &Server{opts: defaultServerOptions()}
	for _, o := range opts {
		o(&s.opts)
	}
	setServerKeepaliveDefaults(&s.opts.keepalive, &s.opts.policy)
	s.base.Workers.Serve = (*serverCall).serve
	s.base.Init(rpccall.ServerConfig[*serverConn]{
		Library: "fastgrpc", Creds: s.opts.creds, HandshakeTimeout: s.opts.connectionTimeout,
		WaitForHandlers: s.opts.waitForHandlers, Stopping: errServerStopping,
		Prepare: func(nc net.Conn) net.Conn {
			limitSilence(nc, s.opts.keepalive.Time, s.opts.keepalive.Timeout)
			return nc
		},
		NewConn: func(nc net.Conn, auth credentials.AuthInfo, arrived time.Duration) *serverConn {
			return newServerConn(s, nc, auth, arrived)
		},
	}, &s.set)
	return s
}

// RegisterService registers a service. Generated code calls it. Like grpc-go's, it
// panics on a mistake in the program: impl does not implement the service, the service
// is registered twice, or Serve has been called.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.base.RegisterService(desc, impl)
}

// GetServiceInfo returns the registered services. The reflection service uses it.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.base.GetServiceInfo() }

// Serve accepts connections until the server stops or the listener fails. It closes the
// listener.
//
// After Stop or GracefulStop it returns nil, once they are done: a program may end when
// Serve has returned.
func (s *Server) Serve(lis net.Listener) error { return s.base.Serve(lis) }

// ServeConn serves a connection that the caller has accepted. It returns after the
// handshake; the connection is then served in the background.
func (s *Server) ServeConn(nc net.Conn) error { return s.base.ServeConn(nc) }

// Stop closes listeners and connections at once. It cancels open calls; their clients
// get Unavailable. It does not wait for handlers that ignore their context, see
// [WaitForHandlers].
func (s *Server) Stop() { s.base.Stop() }

// GracefulStop accepts no new calls and returns when the open ones have ended. A Stop
// meanwhile ends them.
func (s *Server) GracefulStop() { s.base.GracefulStop() }

// lookup returns a method, or nil and the reason.
func (s *Server) lookup(path string) (*rpccall.Method, string) {
	if m := s.base.Lookup(path); m != nil {
		return m, ""
	}
	if h := s.opts.unknown; h != nil {
		return rpccall.NewStreamMethod(path, nil, &grpc.StreamDesc{
			StreamName: path, Handler: h, ClientStreams: true, ServerStreams: true,
		}), ""
	}
	return nil, s.base.WhyUnknown(path)
}
