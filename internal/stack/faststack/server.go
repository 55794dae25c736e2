package faststack

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"wirelab.dev/fastgrpc"
	"wirelab.dev/internal/secure"
	"wirelab.dev/internal/stack"
)

type server struct {
	settings
	fast    *fastgrpc.Server // made by Listen
	rootPEM []byte           // nil: cleartext

	ctx    context.Context // of handshakes
	cancel context.CancelFunc

	methods  stack.Methods // fastgrpc panics at a mistake; this reports it
	services []service
	listener net.Listener
}

type service struct {
	desc           *grpc.ServiceDesc
	implementation any
}

var _ stack.TLSServer = (*server)(nil)

func newServer(own settings) *server {
	s := &server{settings: own}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *server) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	s.methods.RegisterService(desc, implementation)
	s.services = append(s.services, service{desc, implementation})
}

func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.methods.Err(); err != nil {
		return nil, fmt.Errorf("fastgrpc server: %w", err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("fastgrpc server: %w", err)
	}
	options := s.serverTuning().Options()
	if s.security.On {
		identity, err := secure.Issue(s.security.Choice, secure.NoFlaw)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("fastgrpc server: %w", err), listener.Close())
		}
		s.rootPEM = identity.RootPEM()
		over := identity.ServerConfig(protocol)
		options = append(options, fastgrpc.Creds(stack.ServerCredentials(s.ctx, over)))
		if bound := s.security.Handshakes; bound > 0 {
			listener = stack.Admit(listener, over, bound)
		}
	}
	s.listener, s.fast = listener, fastgrpc.NewServer(options...)
	for _, each := range s.services {
		s.fast.RegisterService(each.desc, each.implementation)
	}
	s.describeItself()
	return listener.Addr(), nil
}

// RootPEM is what clients must trust.
func (s *server) RootPEM() []byte { return s.rootPEM }

// describeItself adds what foreign clients ask for: is it up, what has it got.
func (s *server) describeItself() {
	up := health.NewServer()
	for name := range s.fast.GetServiceInfo() {
		up.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(s.fast, up)
	reflection.RegisterV1(s.fast)
}

func (s *server) Serve() error {
	err := s.fast.Serve(s.listener)
	if err != nil && !errors.Is(err, fastgrpc.ErrServerStopped) {
		return fmt.Errorf("fastgrpc server: %w", err)
	}
	return nil
}

func (s *server) Shutdown(ctx context.Context) error {
	s.cancel() // the library would wait for handshakes that may never end
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.fast.GracefulStop()
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		s.fast.Stop() // GracefulStop returns when this has ended its calls
		<-finished
		return fmt.Errorf("fastgrpc server: calls were still running: %w", ctx.Err())
	}
}

func (s *server) Close() error {
	s.cancel()
	if s.listener != nil {
		s.fast.Stop()
		_ = s.listener.Close() // where Serve was never called; else closed already
	}
	return nil
}
