package rpccall

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
)

// A Method is one method of a registered service.
type Method struct {
	Name   string // the full name: "/service/method"
	Impl   any
	Unary  *grpc.MethodDesc // either Unary or Stream is set
	Stream *grpc.StreamDesc
	Info   grpc.StreamServerInfo // for the interceptors of streams
	Long   atomic.Bool           // the last answer was long; the library sets it
}

// NewStreamMethod returns a streaming method.
func NewStreamMethod(name string, impl any, d *grpc.StreamDesc) *Method {
	return &Method{
		Name: name, Impl: impl, Stream: d,
		Info: grpc.StreamServerInfo{FullMethod: name, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams},
	}
}

// ServeStream runs the handler of a streaming method. intercept may be nil.
func (m *Method) ServeStream(stream grpc.ServerStream, intercept grpc.StreamServerInterceptor) error {
	if intercept != nil {
		return intercept(m.Impl, stream, &m.Info, m.Stream.Handler)
	}
	return m.Stream.Handler(m.Impl, stream)
}

// RegisterService registers a service. As in grpc-go, it panics on a mistake in the program.
func (s *Server[C, K]) RegisterService(desc *grpc.ServiceDesc, impl any) {
	library := s.config.Library
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	if s.serving {
		panic(library + ": RegisterService after Serve: " + desc.ServiceName)
	}
	if impl != nil {
		want := reflect.TypeOf(desc.HandlerType).Elem()
		if got := reflect.TypeOf(impl); !got.Implements(want) {
			panic(fmt.Sprintf("%s: RegisterService: %v does not implement %v", library, got, want))
		}
	}
	if _, ok := s.infos[desc.ServiceName]; ok {
		panic(library + ": RegisterService twice: " + desc.ServiceName)
	}
	info := grpc.ServiceInfo{Metadata: desc.Metadata}
	for i := range desc.Methods {
		d := &desc.Methods[i]
		name := "/" + desc.ServiceName + "/" + d.MethodName
		s.methods[name] = &Method{Name: name, Impl: impl, Unary: d}
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: d.MethodName})
	}
	for i := range desc.Streams {
		d := &desc.Streams[i]
		name := "/" + desc.ServiceName + "/" + d.StreamName
		s.methods[name] = NewStreamMethod(name, impl, d)
		info.Methods = append(info.Methods, grpc.MethodInfo{
			Name: d.StreamName, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams,
		})
	}
	s.infos[desc.ServiceName] = info
}

// GetServiceInfo returns the registered services.
func (s *Server[C, K]) GetServiceInfo() map[string]grpc.ServiceInfo {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	return maps.Clone(s.infos)
}

// Lookup returns the method with a full name, or nil. Call it only after the last RegisterService.
func (s *Server[C, K]) Lookup(name string) *Method { return s.methods[name] }

// DescribeUnknown explains why Lookup returns nil for a name.
func (s *Server[C, K]) DescribeUnknown(name string) string {
	service, method, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !ok || !strings.HasPrefix(name, "/") {
		return fmt.Sprintf("malformed method name: %q", name)
	}
	if _, known := s.infos[service]; !known {
		return "unknown service " + service
	}
	return fmt.Sprintf("unknown method %s for service %s", method, service)
}
