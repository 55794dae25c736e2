package fastgrpc

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
)

// ErrServerStopped is returned by Serve if it is called after Stop or GracefulStop. It
// is grpc-go's.
var ErrServerStopped = grpc.ErrServerStopped

var errServerStopping = errors.New("fastgrpc: server is stopping")

// A Server serves registered services on any number of listeners. Its methods may be
// called concurrently, but services must be registered before Serve.
type Server struct {
	opts serverOptions
	connSet[*serverConn]
	base rpccall.Server[*serverConn, *serverCall]
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// NewServer returns a server with no services and no listeners.
func NewServer(opts ...ServerOption) *Server {
	s := &Server{opts: serverOptions{
		limits: defaultLimits(),
		// This is longer than clients wait: when a thousand come at once to a busy machine, the last
		// handshakes take that long, and a refused client tries again.
		connectionTimeout: 120 * time.Second,
	}}
	for _, o := range opts {
		o(&s.opts)
	}
	lifetime.SetServerDefaults(&s.opts.keepalive, &s.opts.policy)
	s.base.Workers.Serve = (*serverCall).serve
	s.base.Init(rpccall.ServerConfig[*serverConn]{
		Library: "fastgrpc", Creds: s.opts.creds, HandshakeTimeout: s.opts.connectionTimeout,
		WaitForHandlers: s.opts.waitForHandlers, Stopping: errServerStopping,
		Prepare: func(nc net.Conn) net.Conn {
			lifetime.LimitSilence(nc, s.opts.keepalive.Time, s.opts.keepalive.Timeout)
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

// GracefulStop accepts no new calls and returns when the open ones have ended. If Stop is called
// meanwhile, it ends them.
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

var _ http.Handler = (*Server)(nil)

// ServeHTTP answers a call that a server of net/http has received, so that gRPC and other
// handlers can share a port:
//
//	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
//		grpcServer.ServeHTTP(w, r)
//	}
//
// Each call gets an HTTP/2 connection of its own within the process. So everything works as with
// Serve, but it costs several times as much as a call on a listener's connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 {
		http.Error(w, "fastgrpc: gRPC requires HTTP/2", http.StatusHTTPVersionNotSupported)
		return
	}
	inner, err := s.serveInner(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = inner.Close() }()
	proxy := httputil.ReverseProxy{
		Transport: inner,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
			p.Out.Header = p.In.Header.Clone() // with the fields that proxies usually remove
			p.Out.ContentLength = -1           // the body is passed on as it arrives
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // resets the stream: a response must not end normally here
		},
		ErrorLog: log.New(io.Discard, "", 0), //nolint:forbidigo // the proxy logs nothing
	}
	proxy.ServeHTTP(w, r)
}

// serveInner makes a connection to this server for a request.
func (s *Server) serveInner(r *http.Request) (*http.ClientConn, error) {
	near, far := net.Pipe()
	var auth credentials.AuthInfo
	if r.TLS != nil {
		auth = credentials.TLSInfo{
			State: *r.TLS, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	outer := &outerConn{Conn: far, local: local, remote: outerAddr(r.RemoteAddr)}
	if err := s.base.Add(newServerConn(s, outer, auth, time.Since(batchio.Epoch))); err != nil {
		_, _ = near.Close(), far.Close()
		return nil, err
	}
	t := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil },
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	// NewClientConn needs a port, which a request's host may lack. The dialer ignores both.
	inner, err := t.NewClientConn(r.Context(), "http", "unused:80")
	if err != nil {
		_ = near.Close()
	}
	return inner, err
}

// outerConn is a connection within the process. It has the addresses of the connection on which
// the request arrived.
type outerConn struct {
	net.Conn
	local, remote net.Addr
}

func (c *outerConn) LocalAddr() net.Addr  { return c.local }
func (c *outerConn) RemoteAddr() net.Addr { return c.remote }

// An outerAddr is a peer's address in net/http's form.
type outerAddr string

func (outerAddr) Network() string  { return "tcp" }
func (a outerAddr) String() string { return string(a) }
