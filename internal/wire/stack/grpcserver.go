package stack

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"wirelab.dev/internal/wire/conn"
)

// GRPCLibrary is the server of a gRPC library, such as *grpc.Server.
type GRPCLibrary interface {
	reflection.GRPCServer
	Serve(net.Listener) error
	GracefulStop()
	Stop()
}

// grpcServer serves reflection and health checks beside the registered services, so that
// grpcurl and probes work.
type grpcServer[S, C any] struct {
	adapter *GRPCAdapter[S, C]
	plan    GRPCPlan[S, C]
	library GRPCLibrary // made by Listen

	ctx    context.Context // of handshakes
	cancel context.CancelFunc

	methods  Methods // reports registration errors, at which libraries panic or exit
	services []grpcService
	listener Listener
}

type grpcService struct {
	desc           *grpc.ServiceDesc
	implementation any
}

var _ TLSServer = (*grpcServer[any, any])(nil)

// HTTP2 is HTTP/2's name in the TLS handshake (RFC 9113, section 3.2).
const HTTP2 = "h2"

// RegisterService implements grpc.ServiceRegistrar.
func (s *grpcServer[S, C]) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	s.methods.RegisterService(desc, implementation)
	s.services = append(s.services, grpcService{desc, implementation})
}

// Listen implements Server.
func (s *grpcServer[S, C]) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.methods.Err(); err != nil {
		return nil, fmt.Errorf("%s server: %w", s.adapter.Info.Name, err)
	}
	var err error
	if s.listener, err = s.plan.security.Listen(ctx, address, s.adapter.Protocol); err != nil {
		return nil, fmt.Errorf("%s server: %w", s.adapter.Info.Name, err)
	}
	options := s.plan.Ends.Server.Options()
	if s.listener.TLS != nil {
		options = append(options, s.adapter.ServerCredentials(conn.ServerCredentials(s.ctx, s.listener.TLS)))
	}
	s.library = s.plan.NewServer(options...)
	for _, each := range s.services {
		s.library.RegisterService(each.desc, each.implementation)
	}
	RegisterHealthAndReflection(s.library)
	return s.listener.Addr(), nil
}

// RegisterHealthAndReflection adds health checks, which say that the services registered
// so far are up, and reflection.
func RegisterHealthAndReflection(server reflection.GRPCServer) {
	up := health.NewServer()
	for name := range server.GetServiceInfo() {
		up.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(server, up)
	reflection.Register(server)
}

// RootPEM implements TLSServer.
func (s *grpcServer[S, C]) RootPEM() []byte { return s.listener.RootPEM }

// Serve implements Server.
func (s *grpcServer[S, C]) Serve() error {
	err := s.library.Serve(s.listener.Listener)
	if err != nil && !errors.Is(err, s.adapter.Stopped) {
		return fmt.Errorf("%s server: %w", s.adapter.Info.Name, err)
	}
	return nil
}

// Shutdown implements Server.
func (s *grpcServer[S, C]) Shutdown(ctx context.Context) error {
	s.cancel() // libraries would wait for unfinished handshakes
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.library.GracefulStop()
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		s.library.Stop() // makes GracefulStop return
		<-finished
		return fmt.Errorf("%s server: calls were still running: %w", s.adapter.Info.Name, ctx.Err())
	}
}

// Close implements Server.
func (s *grpcServer[S, C]) Close() error {
	s.cancel()
	if s.library != nil {
		s.library.Stop()
		_ = s.listener.Close() // Stop closes it only if Serve was called
	}
	return nil
}
