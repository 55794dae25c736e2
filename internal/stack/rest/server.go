package rest

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/secure"
	"wirelab.dev/internal/stack"
)

// server is an HTTP server of one version with the registered services on it.
type server struct {
	version  httpwire.Version
	security stack.Security
	methods  stack.Methods
	root     []byte
	wire     httpwire.Server // nil until Listen
}

var (
	_ stack.Server    = (*server)(nil)
	_ stack.TLSServer = (*server)(nil)
)

// RegisterService implements grpc.ServiceRegistrar.
func (s *server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.methods.RegisterService(desc, service)
}

// Listen implements stack.Server.
func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	plan, err := s.plan()
	if err != nil {
		return nil, fmt.Errorf("rest: listen: %w", err)
	}
	wire, err := httpwire.NewServer(plan)
	if err != nil {
		return nil, fmt.Errorf("rest: listen: %w", err)
	}
	bound, err := wire.Listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	s.wire = wire
	return bound, nil
}

func (s *server) plan() (httpwire.ServerPlan, error) {
	plan := httpwire.ServerPlan{
		Version:    s.version,
		Handshakes: s.security.Handshakes,
		Admit:      stack.Admit,
		Connected: func(ctx context.Context, remote, local net.Addr) context.Context {
			return peer.NewContext(ctx, &peer.Peer{Addr: remote, LocalAddr: local})
		},
	}
	if err := s.methods.Err(); err != nil {
		return plan, err
	}
	var err error
	if plan.Handler, err = newHandler(s.methods.All()); err != nil {
		return plan, err
	}
	if !s.security.On {
		return plan, nil
	}
	identity, err := secure.Issue(s.security.Choice, secure.NoFlaw)
	if err != nil {
		return plan, err
	}
	plan.TLS, s.root = identity.ServerConfig(s.version.Protocols()...), identity.RootPEM()
	return plan, nil
}

// RootPEM implements stack.TLSServer.
func (s *server) RootPEM() []byte { return s.root }

// Serve implements stack.Server.
func (s *server) Serve() error {
	if err := s.wire.Serve(); err != nil {
		return fmt.Errorf("rest: %w", err)
	}
	return nil
}

// Shutdown implements stack.Server.
func (s *server) Shutdown(ctx context.Context) error {
	if s.wire == nil {
		return nil
	}
	if err := s.wire.Shutdown(ctx); err != nil {
		return fmt.Errorf("rest: %w", err)
	}
	return nil
}

// Close implements stack.Server.
func (s *server) Close() error {
	if s.wire == nil {
		return nil
	}
	if err := s.wire.Close(); err != nil {
		return fmt.Errorf("rest: %w", err)
	}
	return nil
}
