package filestack

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"wirelab.dev/internal/stack"
)

// home is a folder of a server's own, with the answers.
type home struct{ path string } // empty until it is made

func (h *home) make() (err error) {
	h.path, err = os.MkdirTemp("", "wirelab-file-")
	return err
}

// remove takes the files away.
func (h *home) remove() error {
	if h.path == "" {
		return nil
	}
	return os.RemoveAll(h.path)
}

// server is net/http's file server, in this process.
type server struct {
	*stack.HTTPServer
	home home
}

var _ stack.Server = (*server)(nil)

func newServer() *server {
	s := &server{}
	s.HTTPServer = plan.NewServer(func(methods *stack.Methods) (http.Handler, error) {
		err := s.home.make()
		return &folder{path: s.home.path, methods: methods}, err
	})
	return s
}

// Listen implements stack.Server.
func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	bound, err := s.HTTPServer.Listen(ctx, address)
	if err != nil {
		return nil, errors.Join(err, s.home.remove())
	}
	return bound, nil
}

// Shutdown implements stack.Server.
func (s *server) Shutdown(ctx context.Context) error {
	return errors.Join(s.HTTPServer.Shutdown(ctx), s.home.remove())
}

// Close implements stack.Server.
func (s *server) Close() error { return errors.Join(s.HTTPServer.Close(), s.home.remove()) }
