package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/http"
)

// HTTPStack is a stack that uses HTTP. A stack's type embeds it. An HTTPAdapter describes one such
// stack.
type HTTPStack struct{ adapter *HTTPAdapter }

// HTTPAdapter describes a stack that uses HTTP.
type HTTPAdapter struct {
	// Info describes the stack. NewHTTPStack sets Connection, Protocol and QUIC.
	Info Info
	// Plan reads a variant's options, except the TLS options.
	Plan func(*scenario.Options) HTTPPlan
	// Refuses holds an error for each kind of call that the stack cannot carry.
	Refuses map[Kind]error
}

// An HTTPPlan describes both ends of a variant.
type HTTPPlan struct {
	Version httpwire.Version
	// Handler makes a server's handler. If it is an io.Closer, the server closes it.
	Handler func(*Methods) (http.Handler, error)
	// Client makes a client, which converts calls into HTTP requests.
	Client func(*HTTPClient) Client
	// Settings holds settings that package httpwire does not list.
	Settings []tuning.Setting

	name     string // the stack's name, in errors
	security Security
}

var (
	_ Stack             = HTTPStack{}
	_ KindLimiter       = HTTPStack{}
	_ ConnectionChooser = HTTPStack{}
	_ ProtocolChooser   = HTTPStack{}
	_ SettingsReporter  = HTTPStack{}
)

// NewHTTPStack makes a stack.
func NewHTTPStack(a HTTPAdapter) HTTPStack {
	version := a.Plan(scenario.ReadOptions("variant", scenario.Variant{Stack: a.Info.Name}, a.Info.Options)).Version
	a.Info.Connection, a.Info.Protocol, a.Info.QUIC = connectionFor(version), version.String(), version == httpwire.HTTP3
	return HTTPStack{&a}
}

// connectionFor returns the usual connection mode of an HTTP version. A pool has at most one
// connection per client.
func connectionFor(version httpwire.Version) scenario.Connection {
	if version == httpwire.HTTP1 {
		return scenario.Connection{Mode: scenario.Pool}
	}
	return scenario.Connection{Mode: scenario.Shared}
}

func (s HTTPStack) plan(v scenario.Variant) (HTTPPlan, error) {
	o := ReadOptions(s, v)
	plan := s.adapter.Plan(o)
	plan.name = s.Info().Name
	if s.Info().hasTLS() {
		plan.security = SecurityOf(o)
		CheckCallerSecurity(v, o, plan.security)
	}
	return plan, o.Err()
}

// Info implements Stack.
func (s HTTPStack) Info() Info { return s.adapter.Info }

// ConnectionFor implements ConnectionChooser.
func (s HTTPStack) ConnectionFor(v scenario.Variant) (mode scenario.Connection, fixed bool) {
	plan, _ := s.plan(v)
	return connectionFor(plan.Version), false
}

// ProtocolFor implements ProtocolChooser.
func (s HTTPStack) ProtocolFor(v scenario.Variant) string {
	plan, _ := s.plan(v)
	return plan.Version.String()
}

// CheckKind implements KindLimiter.
func (s HTTPStack) CheckKind(v scenario.Variant, kind Kind) error {
	return cmp.Or(s.adapter.Refuses[kind], CheckCallerKind(v, kind))
}

// Settings implements SettingsReporter.
func (s HTTPStack) Settings(v scenario.Variant, t Target) ([]tuning.Setting, error) {
	plan, err := s.plan(v)
	if err != nil {
		return nil, err
	}
	tlsConfig := plan.security.PlaceholderConfig()
	return slices.Concat(plan.Settings, httpwire.Settings(
		httpwire.ServerPlan{Version: plan.Version, Handshakes: plan.security.Handshakes, TLS: tlsConfig},
		httpwire.ClientPlan{Version: plan.Version, Connections: t.Connections, Lifecycle: t.Lifecycle, TLS: tlsConfig, Dialer: t.DialerOrNew()},
	)), nil
}

// NewServer implements Stack.
func (s HTTPStack) NewServer(v scenario.Variant) (Server, error) {
	plan, err := s.plan(v)
	if err != nil {
		return nil, err
	}
	return &httpServer{plan: plan}, nil
}

// NewClient implements Stack. If connections are not kept, it opens one connection as a test.
func (s HTTPStack) NewClient(ctx context.Context, v scenario.Variant, target Target) (Client, error) {
	plan, err := s.plan(v)
	if err != nil {
		return nil, err
	}
	wire := httpwire.ClientPlan{
		Version:     plan.Version,
		Address:     target.Address,
		Connections: max(target.Connections, 1),
		Lifecycle:   target.Lifecycle,
		Dialer:      target.DialerOrNew(),
	}
	if plan.security.On {
		wire.TLS, err = plan.security.ClientConfig(target.Address, target.Trust, plan.Version.Protocols()...)
		if err != nil {
			return nil, fmt.Errorf("%s client: %w", plan.name, err)
		}
	}
	c := &HTTPClient{Base: wire.Scheme() + "://" + target.Address, name: plan.name}
	if c.Client, err = httpwire.NewClient(ctx, wire); err != nil {
		return nil, fmt.Errorf("%s client: %w", plan.name, err)
	}
	c.life, c.endLife = context.WithCancel(context.Background())
	return plan.Client(c), nil
}

// HTTPClient sends a client's HTTP requests.
type HTTPClient struct {
	Base string // "http://HOST:PORT"

	*httpwire.Client // sends the requests

	name    string
	life    context.Context // ends when Close is called
	endLife context.CancelFunc
}

var _ TrafficReporter = (*HTTPClient)(nil)

// Close implements Client. Running calls fail.
func (c *HTTPClient) Close() error {
	c.endLife()
	return c.Client.Close()
}

// AfterClose calls f when the client is closed. If stop is called before, f is not called.
func (c *HTTPClient) AfterClose(f func()) (stop func() bool) { return context.AfterFunc(c.life, f) }

// Fail converts the error of a request or answer into a call's error. If err has a gRPC status, the
// result has the same status.
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

type httpServer struct {
	Methods
	plan    HTTPPlan
	handler io.Closer // nil if the handler needs no Close
	rootPEM []byte
	wire    httpwire.Server // nil until Listen
}

var _ TLSServer = (*httpServer)(nil)

func (s *httpServer) RootPEM() []byte { return s.rootPEM }

func (s *httpServer) Listen(ctx context.Context, address string) (net.Addr, error) {
	bound, err := s.listen(ctx, address)
	if err != nil {
		return nil, s.closeHandler(err)
	}
	return bound, nil
}

func (s *httpServer) listen(ctx context.Context, address string) (net.Addr, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	handler, err := s.plan.Handler(&s.Methods)
	if err != nil {
		return nil, err
	}
	s.handler, _ = handler.(io.Closer)
	plan := httpwire.ServerPlan{
		Version: s.plan.Version, Handler: handler, Handshakes: s.plan.security.Handshakes,
		Connected: func(ctx context.Context, remote, local net.Addr) context.Context {
			return peer.NewContext(ctx, &peer.Peer{Addr: remote, LocalAddr: local})
		},
	}
	if plan.TLS, s.rootPEM, err = s.plan.security.ServerConfig(s.plan.Version.Protocols()...); err != nil {
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

func (s *httpServer) Serve() error {
	if s.wire == nil {
		return fmt.Errorf("%s server: serve: the server does not listen: call Listen first", s.plan.name)
	}
	return s.withStackName(s.wire.Serve())
}

func (s *httpServer) Shutdown(ctx context.Context) error {
	if s.wire == nil {
		return nil
	}
	return s.closeHandler(s.wire.Shutdown(ctx))
}

func (s *httpServer) Close() error {
	if s.wire == nil {
		return nil
	}
	return s.closeHandler(s.wire.Close())
}

// closeHandler closes the handler. It joins err and the handler's error, and adds the stack's name.
func (s *httpServer) closeHandler(err error) error {
	if s.handler != nil {
		err = errors.Join(err, s.handler.Close())
	}
	return s.withStackName(err)
}

func (s *httpServer) withStackName(err error) error {
	if err != nil {
		return fmt.Errorf("%s server: %w", s.plan.name, err)
	}
	return nil
}
