package fastgrpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
)

// ErrServerStopped is grpc-go's error. Serve returns it after Stop or GracefulStop was called.
var ErrServerStopped = grpc.ErrServerStopped

var errServerStopping = errors.New("fastgrpc: the server is stopping")

// prefaceRefusal answers a client that does not speak HTTP/2 in cleartext. It holds empty SETTINGS and a
// GOAWAY. A TLS client learns from it that the server does not speak TLS.
var prefaceRefusal = func() string {
	const reason = "the connection does not begin with the HTTP/2 preface"
	var b bytes.Buffer
	frames := http2.NewFramer(&b, nil)
	_ = frames.WriteSettings() // writing to a bytes.Buffer cannot fail
	_ = frames.WriteGoAway(0, http2.ErrCodeProtocol, []byte(reason))
	return b.String()
}()

// A Server serves registered services on any number of listeners. Its methods may be called
// concurrently, but all services must be registered before Serve is called.
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
		// Most clients wait for a shorter time. But if a thousand clients connect to a busy machine
		// at once, the last handshakes need this time, and a refused client only connects again.
		connectionTimeout: 120 * time.Second,
	}}
	for _, o := range opts {
		o(&s.opts)
	}
	lifetime.SetServerDefaults(&s.opts.keepalive, &s.opts.policy)
	s.base.Workers.Serve = (*serverCall).serve
	s.base.Init(rpccall.ServerConfig[*serverConn]{
		Library: "fastgrpc", Creds: s.opts.creds, HandshakeTimeout: s.opts.connectionTimeout,
		WaitForHandlers: s.opts.waitForHandlers, Stopping: errServerStopping, Preface: http2.ClientPreface, Refusal: prefaceRefusal,
		Prepare: func(nc net.Conn) net.Conn {
			lifetime.LimitPeerSilence(nc, s.opts.keepalive.Time, s.opts.keepalive.Timeout)
			return nc
		},
		NewConn: func(nc net.Conn, auth credentials.AuthInfo, arrived time.Duration) *serverConn {
			return newServerConn(s, nc, auth, arrived, &s.opts.limits)
		},
	}, &s.set)
	return s
}

// RegisterService registers a service. Generated code calls it. As in grpc-go, it panics if impl
// does not implement the service, if the service is already registered, or if Serve has been
// called.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.base.RegisterService(desc, impl)
}

// GetServiceInfo returns the registered services. The reflection service uses it.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.base.GetServiceInfo() }

// Serve accepts connections until the server stops or the listener fails. Then it closes the
// listener.
//
// If Stop or GracefulStop is called, Serve returns nil after that method has finished its work. The
// program may then exit.
func (s *Server) Serve(lis net.Listener) error { return s.base.Serve(lis) }

// ServeConn serves a connection that the caller has accepted. It returns after the handshake, and
// goroutines of the server continue to serve the connection.
func (s *Server) ServeConn(nc net.Conn) error { return s.base.ServeConn(nc) }

// Stop closes listeners and connections at once. It cancels open calls, whose clients get the code
// Unavailable. It does not wait for handlers, unless [WaitForHandlers] is set.
func (s *Server) Stop() { s.base.Stop() }

// GracefulStop refuses new calls and returns when all open calls have ended. Calling Stop meanwhile
// ends the open calls.
func (s *Server) GracefulStop() { s.base.GracefulStop() }

// lookupMethod returns a method, or nil and the reason why there is none.
func (s *Server) lookupMethod(path string) (*rpccall.Method, string) {
	if m := s.base.Lookup(path); m != nil {
		return m, ""
	}
	if h := s.opts.unknown; h != nil {
		return rpccall.NewStreamMethod(path, nil, &grpc.StreamDesc{
			StreamName: path, Handler: h, ClientStreams: true, ServerStreams: true,
		}), ""
	}
	return nil, s.base.DescribeUnknown(path)
}

var _ http.Handler = (*Server)(nil)

// ServeHTTP answers a gRPC call that an HTTP server of package net/http has received. So gRPC and
// other handlers can share a port:
//
//	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
//		grpcServer.ServeHTTP(w, r)
//	}
//
// Each call gets its own HTTP/2 connection inside the process. All features of Serve work, but a
// call costs several times as much CPU time as with Serve.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refused := 0
	switch _, isGRPC := wire.ContentSubtype(r.Header.Get("Content-Type")); {
	case r.Method != http.MethodPost:
		refused = http.StatusMethodNotAllowed
		w.Header().Set("Allow", http.MethodPost)
	case !isGRPC:
		refused = http.StatusUnsupportedMediaType
	case r.ProtoMajor != 2:
		refused = http.StatusHTTPVersionNotSupported
	}
	if refused != 0 {
		http.Error(w, "fastgrpc: gRPC requires the method POST, a content-type application/grpc and HTTP/2", refused)
		return
	}
	inner, err := s.dialInProcess(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = inner.Close() }()
	transport := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return inner, nil },
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	proxy := httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "http", Host: cmp.Or(r.Host, "unknown"), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
			p.Out.Header = p.In.Header.Clone() // keeps the fields that proxies usually remove
			p.Out.ContentLength = -1           // the length is unknown: pass the body on as it arrives
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // resets the stream, because an incomplete response must not end normally
		},
		ErrorLog: log.New(io.Discard, "", 0), //nolint:forbidigo // the proxy logs nothing
	}
	proxy.ServeHTTP(w, r)
}

// dialInProcess makes a connection inside the process to this server, for the request r.
func (s *Server) dialInProcess(r *http.Request) (net.Conn, error) {
	near, far := net.Pipe()
	var auth credentials.AuthInfo
	if r.TLS != nil {
		auth = credentials.TLSInfo{
			State: *r.TLS, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	outer := &inProcessConn{Conn: far, local: local, remote: httpAddr(r.RemoteAddr)}
	return near, s.base.ServeSecured(outer, auth)
}

// inProcessConn is a connection inside the process. It reports the addresses of the connection on
// which the request arrived.
type inProcessConn struct {
	net.Conn
	local, remote net.Addr
}

func (c *inProcessConn) LocalAddr() net.Addr  { return c.local }
func (c *inProcessConn) RemoteAddr() net.Addr { return c.remote }

// An httpAddr is a client's address in the form of http.Request.RemoteAddr.
type httpAddr string

func (httpAddr) Network() string  { return "tcp" }
func (a httpAddr) String() string { return string(a) }
