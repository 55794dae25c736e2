package connectstack

import (
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"wirelab.dev/internal/stack"
)

// server has a connect.Handler for every registered operation.
type server struct {
	*stack.HTTPServer
	services map[string]grpc.ServiceInfo
	handlers map[string]http.Handler // by path, which is the full name
}

var _ stack.Server = (*server)(nil)

// RegisterService implements grpc.ServiceRegistrar.
func (s *server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.HTTPServer.RegisterService(desc, service)
	s.services[desc.ServiceName] = grpc.ServiceInfo{Metadata: desc.Metadata}
}

// handler makes the handlers of what is registered.
func (s *server) handler(methods *stack.Methods) (http.Handler, error) {
	s.handlers = map[string]http.Handler{}
	s.addReflectionAndHealth()
	for _, method := range methods.All() {
		s.handlers[method.FullName] = newHandler(method)
	}
	return http.HandlerFunc(s.dispatch), nil
}

// addReflectionAndHealth adds health checks and reflection, which foreign clients use.
func (s *server) addReflectionAndHealth() {
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

func newHandler(method *stack.Method) http.Handler {
	options := serverTuning().Options()
	if method.Unary != nil {
		return connect.NewUnaryHandler(method.FullName, serveUnary(method), options...)
	}
	return connect.NewBidiStreamHandler(method.FullName, serveStream(method), options...)
}
