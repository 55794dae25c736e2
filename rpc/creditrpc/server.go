package creditrpc

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	rpccall "wirelab.dev/rpc/call"
)

// ErrServerStopped is what Serve returns after Stop or GracefulStop was called before it. It is
// grpc-go's.
var ErrServerStopped = grpc.ErrServerStopped

// Server serves registered services on any number of listeners. Its methods may be called
// concurrently, but services must be registered before Serve.
type Server struct {
	opts     serverOptions
	methods  map[string]*method // by full name, "/service/method"
	services map[string]grpc.ServiceInfo
	workers  rpccall.Workers[*serverCall]

	conns[*serverConn]
	serving     bool
	listeners   map[net.Listener]struct{}
	handshaking map[net.Conn]struct{}
	accepting   sync.WaitGroup // Serve calls and handshakes
	stopping    chan struct{}  // closed when Stop or GracefulStop begins
	stopped     chan struct{}  // closed when one of them has ended
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
		opts: defaultServerOptions(), methods: map[string]*method{}, services: map[string]grpc.ServiceInfo{},
		listeners: map[net.Listener]struct{}{}, handshaking: map[net.Conn]struct{}{},
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	for _, o := range opts {
		o(&s.opts)
	}
	s.workers.Serve = (*serverCall).serve
	return s
}

// RegisterService registers a service. Generated code calls it. Like grpc-go's, it panics on
// a mistake in the program: impl does not implement the service, the service is registered
// twice, or Serve has been called.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if impl != nil {
		if want, got := reflect.TypeOf(desc.HandlerType).Elem(), reflect.TypeOf(impl); !got.Implements(want) {
			panic(fmt.Sprintf("creditrpc: RegisterService: %v does not implement %v", got, want))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		panic("creditrpc: RegisterService after Serve: " + desc.ServiceName)
	}
	if _, twice := s.services[desc.ServiceName]; twice {
		panic("creditrpc: RegisterService twice: " + desc.ServiceName)
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
		s.methods[name] = &method{name: name, impl: impl, stream: d, info: grpc.StreamServerInfo{
			FullMethod: name, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams,
		}}
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: d.StreamName, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams})
	}
	s.services[desc.ServiceName] = info
}

// GetServiceInfo returns the registered services.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.services)
}

// why says why there is no such method.
func (s *Server) why(name string) string {
	service, method, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !ok || !strings.HasPrefix(name, "/") {
		return fmt.Sprintf("malformed method name: %q", name)
	}
	if _, known := s.services[service]; !known {
		return "unknown service " + service
	}
	return fmt.Sprintf("unknown method %s for service %s", method, service)
}

// Serve accepts connections until the server stops or the listener fails. It closes the
// listener. After Stop or GracefulStop it returns nil, once they are done.
func (s *Server) Serve(lis net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.Join(ErrServerStopped, lis.Close())
	}
	s.serving = true
	s.listeners[lis] = struct{}{}
	s.accepting.Add(1)
	s.mu.Unlock()
	err := rpccall.Accept(lis, s.stopping, s.handshake)
	s.mu.Lock()
	delete(s.listeners, lis)
	s.mu.Unlock()
	_ = lis.Close() // Accept has told what there is to tell
	s.accepting.Done()
	if err != nil {
		return fmt.Errorf("creditrpc: accept on %v: %w", lis.Addr(), err)
	}
	<-s.stopped
	return nil
}

// handshake serves a connection that was accepted, on a goroutine of its own.
func (s *Server) handshake(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return
	}
	s.accepting.Add(1)
	s.handshaking[nc] = struct{}{}
	go func() { // ends within the handshake's time
		defer s.accepting.Done()
		s.serveConn(nc)
		s.mu.Lock()
		delete(s.handshaking, nc)
		s.mu.Unlock()
	}()
}

func (s *Server) serveConn(nc net.Conn) {
	var auth credentials.AuthInfo
	nc = s.opts.prepare(nc)
	if s.opts.creds != nil {
		_ = nc.SetDeadline(time.Now().Add(s.opts.handshakeTimeout))
		secured, info, err := s.opts.creds.ServerHandshake(nc)
		if err != nil {
			if !errors.Is(err, credentials.ErrConnDispatched) { // somebody else serves it
				_ = nc.Close()
			}
			return
		}
		_ = secured.SetDeadline(time.Time{})
		nc, auth = secured, info
	}
	if !s.add(newServerConn(s, nc, auth)) {
		_ = nc.Close()
	}
}

// Stop closes listeners and connections at once. It cancels open calls; their clients get
// Unavailable. It does not wait for handlers.
func (s *Server) Stop() {
	for _, c := range s.beginStop() {
		c.Close(errStopping)
	}
	s.endStop(false)
}

// GracefulStop takes no new calls and returns when the open ones have ended. A Stop
// meanwhile ends them.
func (s *Server) GracefulStop() {
	for _, c := range s.beginStop() {
		c.drain()
	}
	s.endStop(true)
}

// beginStop closes the listeners and what is in its handshake, and returns the open
// connections. There will be no more.
func (s *Server) beginStop() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	closeOnce(s.stopping)
	for lis := range s.listeners {
		_ = lis.Close()
	}
	for nc := range s.handshaking {
		_ = nc.Close()
	}
	return slices.Collect(maps.Keys(s.open))
}

func (s *Server) endStop(waitForHandlers bool) {
	s.running.Wait()
	s.accepting.Wait()
	s.workers.Close()
	if waitForHandlers {
		s.workers.Wait() // before Serve may return: a lost connection's handlers still run
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	closeOnce(s.stopped)
}

var errStopping = errors.New("creditrpc: server is stopping")

// closeOnce closes a channel, with the lock that guards it held.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
