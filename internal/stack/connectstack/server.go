package connectstack

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/stack"
)

// server has a connect.Handler for every registered operation.
type server struct {
	name     string
	methods  stack.Methods
	services map[string]grpc.ServiceInfo
	handlers map[string]http.Handler // by path, which is the full name
	root     []byte
	wire     httpwire.Server
}

var (
	_ stack.Server    = (*server)(nil)
	_ stack.TLSServer = (*server)(nil)
)

// on gives the server its wire.
func (s *server) on(plan httpwire.ServerPlan) (err error) {
	plan.Handler = http.HandlerFunc(s.dispatch)
	plan.Connected = func(ctx context.Context, remote, local net.Addr) context.Context {
		return peer.NewContext(ctx, &peer.Peer{Addr: remote, LocalAddr: local})
	}
	s.wire, err = httpwire.NewServer(plan)
	return err
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.methods.RegisterService(desc, service)
	s.services[desc.ServiceName] = grpc.ServiceInfo{Metadata: desc.Metadata}
}

// RootPEM implements stack.TLSServer.
func (s *server) RootPEM() []byte { return s.root }

// Listen implements stack.Server.
func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.methods.Err(); err != nil {
		return nil, fmt.Errorf("%s server: %w", s.name, err)
	}
	s.handlers = map[string]http.Handler{}
	s.describeItself()
	for _, method := range s.methods.All() {
		s.handlers[method.FullName] = newHandler(method)
	}
	bound, err := s.wire.Listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", s.name, err)
	}
	return bound, nil
}

// describeItself adds what foreign clients ask for: is it up, what has it got.
func (s *server) describeItself() {
	up := health.NewServer()
	for name := range s.services {
		up.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(s, up)
	reflection.RegisterV1(s)
}

// GetServiceInfo implements reflection.ServiceInfoProvider, which asks for the
// names alone.
func (s *server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.services }

// dispatch finds the operation. Both protocols read 404 as Unimplemented.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request) {
	handler, has := s.handlers[r.URL.Path]
	if !has {
		http.NotFound(w, r)
		return
	}
	handler.ServeHTTP(w, r)
}

// Serve implements stack.Server.
func (s *server) Serve() error { return s.wire.Serve() }

// Shutdown implements stack.Server.
func (s *server) Shutdown(ctx context.Context) error { return s.wire.Shutdown(ctx) }

// Close implements stack.Server.
func (s *server) Close() error { return s.wire.Close() }

func newHandler(method *stack.Method) http.Handler {
	options := serverTuning().Options()
	if method.Unary != nil {
		return connect.NewUnaryHandler(method.FullName, serveUnary(method), options...)
	}
	return connect.NewBidiStreamHandler(method.FullName, serveStream(method), options...)
}
