package filestack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/stack"
)

// base is what both servers have: the operations, and the folder with their answers.
type base struct {
	methods stack.Methods
	home    string // a folder of this server's own; empty until Listen
}

// RegisterService implements grpc.ServiceRegistrar.
func (b *base) RegisterService(desc *grpc.ServiceDesc, service any) {
	b.methods.RegisterService(desc, service)
}

// settle makes the server's home.
func (b *base) settle() error {
	if err := b.methods.Err(); err != nil {
		return fmt.Errorf("file: listen: %w", err)
	}
	home, err := os.MkdirTemp("", "wirelab-file-")
	if err != nil {
		return fmt.Errorf("file: listen: %w", err)
	}
	b.home = home
	return nil
}

// leave takes the files away.
func (b *base) leave() error {
	if b.home == "" {
		return nil
	}
	return os.RemoveAll(b.home)
}

// server is net/http's file server, in this process.
type server struct {
	base
	wire httpwire.Server // nil until Listen
}

var _ stack.Server = (*server)(nil)

// Listen implements stack.Server.
func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	wire, err := httpwire.NewServer(httpwire.ServerPlan{
		Version: httpwire.HTTP2, Handler: &folder{path: s.home, methods: &s.methods},
	})
	if err == nil {
		s.wire = wire
		var bound net.Addr
		if bound, err = wire.Listen(ctx, address); err == nil {
			return bound, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("file: %w", err), s.leave())
}

// Serve implements stack.Server.
func (s *server) Serve() error {
	if err := s.wire.Serve(); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	return nil
}

// Shutdown implements stack.Server.
func (s *server) Shutdown(ctx context.Context) error {
	if s.wire == nil {
		return nil
	}
	return errors.Join(s.wire.Shutdown(ctx), s.leave())
}

// Close implements stack.Server.
func (s *server) Close() error {
	if s.wire == nil {
		return nil
	}
	return errors.Join(s.wire.Close(), s.leave())
}
