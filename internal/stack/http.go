package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/tuning"
)

// HTTPPlan is what both ends of a stack on HTTP are made from.
type HTTPPlan struct {
	Name     string // of the stack, in errors
	Version  httpwire.Version
	Security Security
}

// HTTPClient makes a client's requests.
type HTTPClient struct {
	Base string // "http://HOST:PORT"

	name    string
	wire    *httpwire.Client
	life    context.Context // ends with Close
	endLife context.CancelFunc
}

var _ TrafficReporter = (*HTTPClient)(nil)

// NewClient opens the connections that are kept, or tries whether one can be
// opened.
func (p HTTPPlan) NewClient(ctx context.Context, target Target) (*HTTPClient, error) {
	plan := httpwire.ClientPlan{
		Version:     p.Version,
		Address:     target.Address,
		Connections: max(target.Connections, 1),
		Lifecycle:   httpwire.Lifecycle(target.Lifecycle),
		Dialer:      DialerOf(target),
	}
	var err error
	if p.Security.On {
		plan.TLS, err = p.Security.ClientConfig(target.Address, target.Trust, p.Version.Protocols()...)
		if err != nil {
			return nil, fmt.Errorf("%s client: %w", p.Name, err)
		}
	}
	c := &HTTPClient{Base: plan.Scheme() + "://" + target.Address, name: p.Name}
	if c.wire, err = httpwire.NewClient(ctx, plan); err != nil {
		return nil, fmt.Errorf("%s client: %w", p.Name, err)
	}
	c.life, c.endLife = context.WithCancel(context.Background())
	return c, nil
}

// Settings lists what is not a library's default at both ends.
func (p HTTPPlan) Settings(t Target) []tuning.Setting {
	over := p.Security.Configured()
	return httpwire.Settings(
		httpwire.ServerPlan{Version: p.Version, Handshakes: p.Security.Handshakes, TLS: over},
		httpwire.ClientPlan{Version: p.Version, Connections: t.Connections, Lifecycle: httpwire.Lifecycle(t.Lifecycle), TLS: over, Dialer: DialerOf(t)},
	)
}

// Do makes a request.
func (c *HTTPClient) Do(request *http.Request) (*http.Response, error) { return c.wire.Do(request) }

// Close implements Client. It ends the calls that are running.
func (c *HTTPClient) Close() error {
	c.endLife()
	return c.wire.Close()
}

// AfterClose calls f when the client is closed. Stop takes that back.
func (c *HTTPClient) AfterClose(f func()) (stop func() bool) { return context.AfterFunc(c.life, f) }

// Traffic implements TrafficReporter.
func (c *HTTPClient) Traffic() (Traffic, bool) { return TrafficOf(c.wire) }

// Fail is the error of a call whose request failed, or the reading of its answer.
// An error that has a status of its own keeps it.
func (c *HTTPClient) Fail(ctx context.Context, err error) error {
	var own interface{ GRPCStatus() *status.Status }
	switch {
	case ctx.Err() == nil && c.life.Err() != nil:
		return Fail(codes.Canceled, fmt.Errorf("%s: the client is closed: %w", c.name, err))
	case ctx.Err() == nil && errors.As(err, &own):
		return own.GRPCStatus().Err()
	default:
		return FailContext(ctx, fmt.Errorf("%s: %w", c.name, err))
	}
}

// CheckCallOptions refuses what would be asked for in vain: a wire that is not
// gRPC's has an answer's metadata and nothing else.
func CheckCallOptions(name string, options []grpc.CallOption) error {
	for _, option := range options {
		switch option.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.StaticMethodCallOption, grpc.FailFastCallOption:
		default:
			return status.Errorf(codes.Unimplemented, "%s: the call option %T has no meaning on this wire", name, option)
		}
	}
	return nil
}

// HTTPServer is a server that answers requests by a handler.
type HTTPServer struct {
	plan    HTTPPlan
	handler func(*Methods) (http.Handler, error)
	methods Methods
	rootPEM []byte
	wire    httpwire.Server // nil until Listen
}

var (
	_ Server    = (*HTTPServer)(nil)
	_ TLSServer = (*HTTPServer)(nil)
)

// NewServer makes a server. Listen makes the handler of what is registered.
func (p HTTPPlan) NewServer(handler func(*Methods) (http.Handler, error)) *HTTPServer {
	return &HTTPServer{plan: p, handler: handler}
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *HTTPServer) RegisterService(desc *grpc.ServiceDesc, service any) {
	s.methods.RegisterService(desc, service)
}

// RootPEM implements TLSServer.
func (s *HTTPServer) RootPEM() []byte { return s.rootPEM }

// Listen implements Server.
func (s *HTTPServer) Listen(ctx context.Context, address string) (net.Addr, error) {
	bound, err := s.listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", s.plan.Name, err)
	}
	return bound, nil
}

func (s *HTTPServer) listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.methods.Err(); err != nil {
		return nil, err
	}
	handler, err := s.handler(&s.methods)
	if err != nil {
		return nil, err
	}
	plan := httpwire.ServerPlan{
		Version: s.plan.Version, Handler: handler, Handshakes: s.plan.Security.Handshakes, Admit: Admit,
		Connected: func(ctx context.Context, remote, local net.Addr) context.Context {
			return peer.NewContext(ctx, &peer.Peer{Addr: remote, LocalAddr: local})
		},
	}
	if plan.TLS, s.rootPEM, err = s.plan.Security.ServerConfig(s.plan.Version.Protocols()...); err != nil {
		return nil, err
	}
	wire, err := httpwire.NewServer(plan)
	if err != nil {
		return nil, err
	}
	bound, err := wire.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	s.wire = wire
	return bound, nil
}

// Serve implements Server.
func (s *HTTPServer) Serve() error {
	if s.wire == nil {
		return fmt.Errorf("%s server: serve: it does not listen yet", s.plan.Name)
	}
	return s.named(s.wire.Serve())
}

// Shutdown implements Server.
func (s *HTTPServer) Shutdown(ctx context.Context) error {
	if s.wire == nil {
		return nil
	}
	return s.named(s.wire.Shutdown(ctx))
}

// Close implements Server.
func (s *HTTPServer) Close() error {
	if s.wire == nil {
		return nil
	}
	return s.named(s.wire.Close())
}

func (s *HTTPServer) named(err error) error {
	if err != nil {
		return fmt.Errorf("%s server: %w", s.plan.Name, err)
	}
	return nil
}
