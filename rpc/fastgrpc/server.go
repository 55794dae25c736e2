package fastgrpc

import (
	"fmt"
	"maps"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	rpccall "wirelab.dev/rpc/call"
)

// ErrServerStopped is returned by Serve if it is called after Stop or GracefulStop. It
// is grpc-go's.
var ErrServerStopped = grpc.ErrServerStopped

// Server serves registered services on any number of listeners. Its methods may be
// called concurrently, but services must be registered before Serve.
type Server struct {
	opts     serverOptions
	methods  map[string]*method // by full name, "/service/method"
	services map[string]grpc.ServiceInfo
	workers  rpccall.Workers[*serverStream]

	connSet[*serverConn]
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
	long   atomic.Bool           // the last answer was longer than h2.ShortMessage
}

// NewServer returns a server with no services and no listeners.
func NewServer(opts ...ServerOption) *Server {
	s := &Server{
		opts:      defaultServerOptions(),
		methods:   make(map[string]*method),
		services:  make(map[string]grpc.ServiceInfo),
		listeners: make(map[net.Listener]struct{}), handshaking: make(map[net.Conn]struct{}),
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.workers.Serve = (*serverStream).serve
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
