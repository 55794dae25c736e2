package grpcstack

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"wirelab.dev/internal/stack"
)

type server struct {
	grpc     *grpc.Server
	methods  stack.Methods // grpc.Server ends the process at a mistake; this reports it
	services []service
	listener net.Listener
}

type service struct {
	desc           *grpc.ServiceDesc
	implementation any
}

func newServer() *server {
	return &server{grpc: grpc.NewServer(
		grpc.MaxRecvMsgSize(stack.MaxMessageBytes),
		grpc.MaxSendMsgSize(stack.MaxMessageBytes),
	)}
}

func (s *server) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	s.methods.RegisterService(desc, implementation)
	s.services = append(s.services, service{desc, implementation})
}

func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.methods.Err(); err != nil {
		return nil, fmt.Errorf("grpc server: %w", err)
	}
	for _, each := range s.services {
		s.grpc.RegisterService(each.desc, each.implementation)
	}
	s.describeItself()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("grpc server: %w", err)
	}
	s.listener = listener
	return listener.Addr(), nil
}

// describeItself adds what foreign clients ask for: is it up, what has it got.
func (s *server) describeItself() {
	up := health.NewServer()
	for name := range s.grpc.GetServiceInfo() {
		up.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(s.grpc, up)
	reflection.RegisterV1(s.grpc)
}

func (s *server) Serve() error {
	err := s.grpc.Serve(s.listener)
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("grpc server: %w", err)
	}
	return nil
}

func (s *server) Shutdown(ctx context.Context) error {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.grpc.GracefulStop()
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		s.grpc.Stop() // GracefulStop returns when this has ended its calls
		<-finished
		return fmt.Errorf("grpc server: calls were still running: %w", ctx.Err())
	}
}

func (s *server) Close() error {
	s.grpc.Stop()
	if s.listener != nil {
		_ = s.listener.Close() // where Serve was never called; else closed already
	}
	return nil
}
