package stack

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/grpc"
)

// Method is one operation that a server serves.
type Method struct {
	FullName string // "/package.Service/Operation", as gRPC writes it
	Kind     Kind
	Unary    *grpc.MethodDesc // nil for the streaming kinds
	Stream   *grpc.StreamDesc // nil for unary
	Service  any              // the implementation that was registered
}

// Name returns the operation's name without its service.
func (m *Method) Name() string {
	if m.Unary != nil {
		return m.Unary.MethodName
	}
	return m.Stream.StreamName
}

// ClientStreams reports whether a request is a stream.
func (m *Method) ClientStreams() bool { return m.Stream != nil && m.Stream.ClientStreams }

// ServerStreams reports whether an answer is a stream.
func (m *Method) ServerStreams() bool { return m.Stream != nil && m.Stream.ServerStreams }

// Methods holds the methods that were registered with a server. It is filled before
// Listen and only read afterwards. The zero value is empty and ready.
type Methods struct {
	byName map[string]*Method
	order  []*Method
	faults []error
}

// RegisterService implements grpc.ServiceRegistrar. That interface cannot report
// errors; Err returns them.
func (m *Methods) RegisterService(desc *grpc.ServiceDesc, service any) {
	if want := reflect.TypeOf(desc.HandlerType).Elem(); service == nil || !reflect.TypeOf(service).Implements(want) {
		m.faults = append(m.faults, fmt.Errorf("service %s: %T does not implement %s", desc.ServiceName, service, want))
		return
	}
	for i := range desc.Methods {
		m.add(desc.ServiceName, &Method{Kind: Unary, Unary: &desc.Methods[i], Service: service})
	}
	for i := range desc.Streams {
		m.add(desc.ServiceName, &Method{Kind: KindOf(&desc.Streams[i]), Stream: &desc.Streams[i], Service: service})
	}
}

func (m *Methods) add(service string, method *Method) {
	method.FullName = "/" + service + "/" + method.Name()
	if _, twice := m.byName[method.FullName]; twice {
		m.faults = append(m.faults, fmt.Errorf("operation %s is registered twice", method.FullName))
		return
	}
	if m.byName == nil {
		m.byName = map[string]*Method{}
	}
	m.byName[method.FullName] = method
	m.order = append(m.order, method)
}

// GetServiceInfo implements reflection.ServiceInfoProvider, which asks only for the names
// of the services.
func (m *Methods) GetServiceInfo() map[string]grpc.ServiceInfo {
	services := map[string]grpc.ServiceInfo{}
	for _, method := range m.order {
		services[strings.Split(method.FullName, "/")[1]] = grpc.ServiceInfo{}
	}
	return services
}

// Err reports what was wrong with the registrations.
func (m *Methods) Err() error { return errors.Join(m.faults...) }

// Find returns the method of that full name, or nil.
func (m *Methods) Find(fullName string) *Method { return m.byName[fullName] }

// All returns the methods in the order of their registration.
func (m *Methods) All() []*Method { return m.order }
