package fastgrpc

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// ErrServerStopped is returned by Serve after Stop or GracefulStop.
var ErrServerStopped = errors.New("fastgrpc: the server has been stopped")

// Server serves registered services on any number of listeners. Its methods may be
// called concurrently, but services must be registered before Serve.
type Server struct {
	opts     serverOptions
	methods  map[string]*method // by full name, "/service/method"
	services map[string]grpc.ServiceInfo
	workers  workers

	connSet[*serverConn]
	serving   bool
	listeners map[net.Listener]struct{}
	accepting sync.WaitGroup // Serve calls and handshakes
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// method is one method of a registered service.
type method struct {
	name   string
	impl   any
	unary  *grpc.MethodDesc // either unary or stream is set
	stream *grpc.StreamDesc
	info   grpc.StreamServerInfo // of a stream
}

// NewServer returns a server with no services and no listeners.
func NewServer(opts ...ServerOption) *Server {
	s := &Server{
		opts:      defaultServerOptions(),
		methods:   make(map[string]*method),
		services:  make(map[string]grpc.ServiceInfo),
		listeners: make(map[net.Listener]struct{}),
	}
	for _, o := range opts {
		o(&s.opts)
	}
	setServerKeepaliveDefaults(&s.opts.keepalive, &s.opts.policy)
	return s
}

// RegisterService registers a service. Generated code calls it. Like grpc-go's, it
// panics on a mistake in the program: impl does not implement the service, the service
// is registered twice, or Serve has been called.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if impl != nil {
		want := reflect.TypeOf(desc.HandlerType).Elem()
		if got := reflect.TypeOf(impl); !got.Implements(want) {
			panic(fmt.Sprintf("fastgrpc: RegisterService: %v does not implement %v", got, want))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		panic("fastgrpc: RegisterService after Serve: " + desc.ServiceName)
	}
	if _, ok := s.services[desc.ServiceName]; ok {
		panic("fastgrpc: RegisterService twice: " + desc.ServiceName)
	}
	info := grpc.ServiceInfo{Metadata: desc.Metadata}
	for i := range desc.Methods {
		d := &desc.Methods[i]
		name := "/" + desc.ServiceName + "/" + d.MethodName
		s.methods[name] = &method{name: name, impl: impl, unary: d}
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: d.MethodName})
	}
	for i := range desc.Streams {
		d := &desc.Streams[i]
		name := "/" + desc.ServiceName + "/" + d.StreamName
		s.methods[name] = newStreamMethod(name, impl, d)
		info.Methods = append(info.Methods, grpc.MethodInfo{
			Name: d.StreamName, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams,
		})
	}
	s.services[desc.ServiceName] = info
}

func newStreamMethod(name string, impl any, d *grpc.StreamDesc) *method {
	return &method{
		name: name, impl: impl, stream: d,
		info: grpc.StreamServerInfo{
			FullMethod: name, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams,
		},
	}
}

// GetServiceInfo returns the registered services. The reflection service uses it.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.services)
}

// lookup returns a method, or nil and the reason.
func (s *Server) lookup(path string) (*method, string) {
	if m := s.methods[path]; m != nil {
		return m, ""
	}
	if h := s.opts.unknown; h != nil {
		return newStreamMethod(path, nil, &grpc.StreamDesc{
			StreamName: path, Handler: h, ClientStreams: true, ServerStreams: true,
		}), ""
	}
	service, name, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !ok || !strings.HasPrefix(path, "/") {
		return nil, fmt.Sprintf("malformed method name: %q", path)
	}
	if _, known := s.services[service]; !known {
		return nil, "unknown service " + service
	}
	return nil, fmt.Sprintf("unknown method %s for service %s", name, service)
}

// Serve accepts connections until the server stops or the listener fails. It
// closes the listener.
func (s *Server) Serve(lis net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = lis.Close()
		return ErrServerStopped
	}
	s.serving = true
	s.listeners[lis] = struct{}{}
	s.accepting.Add(1)
	s.mu.Unlock()
	defer s.accepting.Done()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, lis)
		s.mu.Unlock()
		_ = lis.Close()
	}()
	return s.accept(lis)
}

func (s *Server) accept(lis net.Listener) error {
	const longestPause = time.Second
	pause := 5 * time.Millisecond
	for {
		nc, err := lis.Accept()
		if err == nil {
			pause = 5 * time.Millisecond
			s.handshake(nc)
			continue
		}
		s.mu.Lock()
		stopped := s.closed
		s.mu.Unlock()
		if stopped {
			return ErrServerStopped
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return fmt.Errorf("fastgrpc: accept on %v: %w", lis.Addr(), err)
		}
		// For instance out of file descriptors: wait until some are closed.
		time.Sleep(pause)
		pause = min(2*pause, longestPause)
	}
}

// handshake calls ServeConn on a new goroutine.
func (s *Server) handshake(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return
	}
	s.accepting.Add(1)
	go func() {
		defer s.accepting.Done()
		// ServeConn has closed the connection, which tells the client.
		_ = s.ServeConn(nc)
	}()
}

// ServeConn serves a connection that the caller has accepted. It returns after the
// handshake; the connection is then served in the background.
func (s *Server) ServeConn(nc net.Conn) error {
	s.mu.Lock()
	s.serving = true
	s.mu.Unlock()
	var auth credentials.AuthInfo
	if s.opts.creds != nil {
		_ = nc.SetDeadline(time.Now().Add(s.opts.handshakeTimeout))
		secured, info, err := s.opts.creds.ServerHandshake(nc)
		if err != nil {
			_ = nc.Close()
			return fmt.Errorf("fastgrpc: handshake with %v: %w", nc.RemoteAddr(), err)
		}
		_ = secured.SetDeadline(time.Time{})
		nc, auth = secured, info
	}
	if !s.add(newServerConn(s, nc, auth)) {
		_ = nc.Close()
		return ErrServerStopped
	}
	return nil
}

// closeListeners closes the listeners and returns the open connections.
func (s *Server) closeListeners() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for lis := range s.listeners {
		_ = lis.Close()
	}
	return s.open()
}

// Stop closes listeners and connections at once. It cancels open calls; their clients
// get Unavailable. It does not wait for handlers that ignore their context.
func (s *Server) Stop() {
	for _, c := range s.closeListeners() {
		c.close(errServerStopping)
	}
	s.running.Wait()
	s.workers.close()
}

// GracefulStop accepts no new calls and returns when the open ones have ended.
func (s *Server) GracefulStop() {
	for _, c := range s.closeListeners() {
		c.drain()
	}
	s.running.Wait()
	s.accepting.Wait()
	s.workers.close()
	s.workers.active.Wait()
}

var errServerStopping = errors.New("fastgrpc: server is stopping")
