package restjson

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/stack"
)

// server is Gin with the registered services' routes.
type server struct {
	methods stack.Methods
	codec   codec
	plan    httpwire.ServerPlan
	root    []byte
	wire    httpwire.Server // nil until Listen
}

var (
	_ stack.Server    = (*server)(nil)
	_ stack.TLSServer = (*server)(nil)
)

// RegisterService implements grpc.ServiceRegistrar.
func (s *server) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.methods.RegisterService(desc, service)
}

// RootPEM implements stack.TLSServer.
func (s *server) RootPEM() []byte { return s.root }

// Listen implements stack.Server.
func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.methods.Err(); err != nil {
		return nil, fmt.Errorf("rest-json: listen: %w", err)
	}
	handler, err := newEngine(s.methods.All(), s.codec)
	if err != nil {
		return nil, fmt.Errorf("rest-json: listen: %w", err)
	}
	s.plan.Handler = handler
	s.plan.Connected = func(ctx context.Context, remote, local net.Addr) context.Context {
		return peer.NewContext(ctx, &peer.Peer{Addr: remote, LocalAddr: local})
	}
	if s.wire, err = httpwire.NewServer(s.plan); err != nil {
		return nil, fmt.Errorf("rest-json: listen: %w", err)
	}
	bound, err := s.wire.Listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("rest-json: %w", err)
	}
	return bound, nil
}

// Serve implements stack.Server.
func (s *server) Serve() error {
	if s.wire == nil {
		return errors.New("rest-json: serve: it does not listen yet")
	}
	return s.wire.Serve()
}

// Shutdown implements stack.Server.
func (s *server) Shutdown(ctx context.Context) error {
	if s.wire == nil {
		return nil
	}
	return s.wire.Shutdown(ctx)
}

// Close implements stack.Server.
func (s *server) Close() error {
	if s.wire == nil {
		return nil
	}
	return s.wire.Close()
}
