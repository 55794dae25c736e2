package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
)

// GRPCStack is a stack that uses a gRPC library. S and C are the library's option types for server
// and client. A GRPCAdapter describes one such stack.
type GRPCStack[S, C any] struct{ adapter *GRPCAdapter[S, C] }

// GRPCAdapter describes a stack that uses a gRPC library.
type GRPCAdapter[S, C any] struct {
	// Info describes the stack. NewGRPCStack adds the TLS options and sets Connection.
	Info Info
	// Protocol is the protocol that the server must choose in the TLS handshake.
	Protocol string
	// Plan reads a variant's options, except the TLS options.
	Plan func(scenario.Variant, *scenario.Options) GRPCPlan[S, C]

	// ServerCredentials and ClientCredentials make the library's options for TLS.
	ServerCredentials func(credentials.TransportCredentials) S
	ClientCredentials func(credentials.TransportCredentials) C
	// Timed returns client options that stop the clock when an answer begins.
	Timed func(*FirstByte) []C
	// Stopped is the error that the library's Serve returns after its Stop.
	Stopped error
	// Handshake is the library's own setting for the TLS handshake timeout, if it has such a
	// setting. conn.HandshakeTimeout replaces the setting's default.
	Handshake struct{ Name, Default string }
}

// A GRPCPlan describes both ends of a variant.
type GRPCPlan[S, C any] struct {
	// Ends holds the options and settings of both ends that differ from the library's defaults.
	Ends tuning.Ends[S, C]
	// Settings holds further settings, for which the library has no option.
	Settings []tuning.Setting
	// Connections is the number of connections, if an option of the variant sets it; otherwise 0.
	Connections int
	// NewServer makes the library's server.
	NewServer func(...S) GRPCLibrary
	// Connect makes a client with one connection, and waits until it can carry calls. It returns
	// the first error, after which the library itself would try again.
	Connect func(ctx context.Context, address string, dial DialFunc, options ...C) (Client, error)

	security Security
}

// DialFunc is the type of a gRPC library's dial function.
type DialFunc = func(ctx context.Context, address string) (net.Conn, error)

var (
	_ Stack             = GRPCStack[any, any]{}
	_ KindLimiter       = GRPCStack[any, any]{}
	_ ConnectionChooser = GRPCStack[any, any]{}
	_ SettingsReporter  = GRPCStack[any, any]{}
)

// NewGRPCStack makes a stack.
func NewGRPCStack[S, C any](a GRPCAdapter[S, C]) GRPCStack[S, C] {
	a.Info.Options = slices.Concat(a.Info.Options, TLSOptions(OptionalTLS))
	a.Info.Connection = scenario.Connection{Mode: scenario.Shared}
	return GRPCStack[S, C]{&a}
}

func (s GRPCStack[S, C]) plan(v scenario.Variant) (GRPCPlan[S, C], error) {
	o := ReadOptions(s, v)
	plan := s.adapter.Plan(v, o)
	plan.security = SecurityOf(o)
	CheckCallerSecurity(v, o, plan.security)
	return plan, o.Err()
}

// Info implements Stack.
func (s GRPCStack[S, C]) Info() Info { return s.adapter.Info }

// Check returns an error if the variant is invalid.
func (s GRPCStack[S, C]) Check(v scenario.Variant) error {
	_, err := s.plan(v)
	return err
}

// ConnectionFor implements ConnectionChooser.
func (s GRPCStack[S, C]) ConnectionFor(v scenario.Variant) (mode scenario.Connection, fixed bool) {
	plan, _ := s.plan(v)
	switch {
	case HasPoolOption(v):
		return AutoConnection, true
	case plan.Connections > 0:
		return scenario.Connection{Mode: scenario.Pool, Size: plan.Connections}, true
	default:
		return s.Info().Connection, false
	}
}

// CheckKind implements KindLimiter: callers other than the stack's own make only unary calls.
func (GRPCStack[S, C]) CheckKind(v scenario.Variant, kind Kind) error {
	return CheckCallerKind(v, kind)
}

// Settings implements SettingsReporter.
func (s GRPCStack[S, C]) Settings(v scenario.Variant, _ Target) ([]tuning.Setting, error) {
	plan, err := s.plan(v)
	if err != nil {
		return nil, err
	}
	all := append(plan.Ends.Server.Settings(), plan.Ends.Client.Settings()...)
	if own := s.adapter.Handshake; plan.security.On && own.Name != "" {
		all = append(all, tuning.Setting{
			Side: tuning.Server, Name: own.Name, Value: conn.HandshakeTimeout.String(), Default: own.Default,
			Why: "a silent peer is disconnected after the same time on every stack",
		})
	}
	return append(all, plan.Settings...), nil
}

// NewServer implements Stack.
func (s GRPCStack[S, C]) NewServer(v scenario.Variant) (Server, error) {
	plan, err := s.plan(v)
	if err != nil {
		return nil, err
	}
	server := &grpcServer[S, C]{adapter: s.adapter, plan: plan}
	server.ctx, server.cancel = context.WithCancel(context.Background())
	return server, nil
}

// NewClient implements Stack. It opens the kept connections one after another.
func (s GRPCStack[S, C]) NewClient(ctx context.Context, v scenario.Variant, target Target) (Client, error) {
	plan, err := s.plan(v)
	if err != nil {
		return nil, err
	}
	target.Connections = cmp.Or(plan.Connections, target.Connections)
	connector, err := NewConnector(s, v, plan.security, target, s.adapter.Protocol)
	if err != nil {
		return nil, err
	}
	open := func(ctx context.Context, clock *FirstByte) (Client, error) {
		return s.open(ctx, connector, plan, clock)
	}
	if HasPoolOption(v) {
		return connector.NewPool(ctx, open)
	}
	return connector.NewClient(ctx, open)
}

func (s GRPCStack[S, C]) open(ctx context.Context, c *Connector, plan GRPCPlan[S, C], clock *FirstByte) (Client, error) {
	ahead, err := conn.PreopenConns(ctx, 1, c.Open) // open it first: the library would hide its error
	if err != nil {
		return nil, c.Fail(ctx, err)
	}
	defer ahead.Close()
	options := append(plan.Ends.Client.Options(), s.adapter.ClientCredentials(c.Credentials()))
	if clock != nil {
		options = append(options, s.adapter.Timed(clock)...)
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return ahead.Dial(ctx) }
	client, err := plan.Connect(ctx, c.Target.Address, dial, options...)
	if err != nil {
		return nil, c.Fail(ctx, err)
	}
	c.Dialer.UsedProtocol(s.adapter.Protocol)
	return client, nil
}

// GRPCLibrary is the server of a gRPC library, such as *grpc.Server.
type GRPCLibrary interface {
	reflection.GRPCServer
	Serve(net.Listener) error
	GracefulStop()
	Stop()
}

// grpcServer runs a library's server. It adds reflection and health checks, for grpcurl and probes.
type grpcServer[S, C any] struct {
	adapter *GRPCAdapter[S, C]
	plan    GRPCPlan[S, C]
	library GRPCLibrary // set by Listen

	ctx    context.Context // when it ends, running handshakes are aborted
	cancel context.CancelFunc

	methods  Methods             // collects registration errors; the libraries would panic or exit
	services []func(GRPCLibrary) // functions that register a service with the library
	listener Listener
}

var _ TLSServer = (*grpcServer[any, any])(nil)

// HTTP2 is the name of HTTP/2 in the TLS handshake (RFC 9113, section 3.2).
const HTTP2 = "h2"

func (s *grpcServer[S, C]) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	s.methods.RegisterService(desc, implementation)
	s.services = append(s.services, func(l GRPCLibrary) { l.RegisterService(desc, implementation) })
}

func (s *grpcServer[S, C]) Listen(ctx context.Context, address string) (net.Addr, error) {
	err := s.methods.Err()
	if err == nil {
		s.listener, err = s.plan.security.Listen(ctx, address, s.adapter.Protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", s.adapter.Info.Name, err)
	}
	options := s.plan.Ends.Server.Options()
	if s.listener.TLS != nil {
		options = append(options, s.adapter.ServerCredentials(conn.ServerCredentials(s.ctx, s.listener.TLS)))
	}
	s.library = s.plan.NewServer(options...)
	for _, register := range s.services {
		register(s.library)
	}
	RegisterHealthAndReflection(s.library)
	return s.listener.Addr(), nil
}

// RegisterHealthAndReflection adds reflection and health checks. All services count as healthy.
func RegisterHealthAndReflection(server reflection.GRPCServer) {
	up := health.NewServer()
	for name := range server.GetServiceInfo() {
		up.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(server, up)
	reflection.Register(server)
}

func (s *grpcServer[S, C]) RootPEM() []byte { return s.listener.RootPEM }

func (s *grpcServer[S, C]) Serve() error {
	err := s.library.Serve(s.listener.Listener)
	if err != nil && !errors.Is(err, s.adapter.Stopped) {
		return fmt.Errorf("%s server: %w", s.adapter.Info.Name, err)
	}
	return nil
}

func (s *grpcServer[S, C]) Shutdown(ctx context.Context) error {
	s.cancel() // otherwise libraries wait for unfinished handshakes
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

func (s *grpcServer[S, C]) Close() error {
	s.cancel()
	if s.library != nil {
		s.library.Stop()
		_ = s.listener.Close() // Stop closes the listener only if Serve was called
	}
	return nil
}
