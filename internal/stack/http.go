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

// NewClient makes a client. It opens the connections that are kept; if none is kept,
// it checks that one can be opened.
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

// Settings lists both ends' settings that are not a library's default.
func (p HTTPPlan) Settings(t Target) []tuning.Setting {
	tlsConfig := p.Security.Configured()
	return httpwire.Settings(
		httpwire.ServerPlan{Version: p.Version, Handshakes: p.Security.Handshakes, TLS: tlsConfig},
		httpwire.ClientPlan{Version: p.Version, Connections: t.Connections, Lifecycle: httpwire.Lifecycle(t.Lifecycle), TLS: tlsConfig, Dialer: DialerOf(t)},
	)
}

// Do makes a request.
func (c *HTTPClient) Do(request *http.Request) (*http.Response, error) { return c.wire.Do(request) }

// Close implements Client. Running calls fail.
func (c *HTTPClient) Close() error {
	c.endLife()
	return c.wire.Close()
}

// AfterClose calls f when the client is closed, unless stop is called before.
func (c *HTTPClient) AfterClose(f func()) (stop func() bool) { return context.AfterFunc(c.life, f) }

// Traffic implements TrafficReporter.
func (c *HTTPClient) Traffic() (Traffic, bool) { return TrafficOf(c.wire) }

// Fail returns the error of a call whose request failed or whose answer could not be
// read. An error that has a gRPC status keeps it.
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

// CheckCallOptions returns an error for call options that would have no effect. A
// wire other than gRPC supports only those that return an answer's metadata.
func CheckCallOptions(name string, options []grpc.CallOption) error {
	for _, option := range options {
		switch option.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.StaticMethodCallOption, grpc.FailFastCallOption:
		default:
			return status.Errorf(codes.Unimplemented, "%s: the call option %T is not supported on this wire", name, option)
		}
	}
	return nil
}

// HTTPServer is a server that answers requests with an http.Handler.
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

// NewServer makes a server. Listen calls handler with the registered methods.
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
		return fmt.Errorf("%s server: serve: the server does not listen: call Listen first", s.plan.Name)
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
