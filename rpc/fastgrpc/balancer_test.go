package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	_ "google.golang.org/grpc/balancer/leastrequest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc/internal/connect"
)

// A setup holds the settings of a client, for either library.
type setup struct {
	target string
	config string // the default service config
	state  resolver.State
	dialer func(context.Context, string) (net.Conn, error)
	ours   []ClientOption
	theirs []grpc.DialOption
}

// subject is a client of either library, and its resolver.
type subject struct {
	grpcClient
	resolver *manual.Resolver
}

// forBoth runs a test with grpc-go's client, which shows what is right, and with ours.
func forBoth(t *testing.T, test func(t *testing.T, dial func(setup) subject)) {
	run := func(name string, dial func(setup, resolver.Builder) (grpcClient, error)) {
		t.Run(name, func(t *testing.T) {
			test(t, func(s setup) subject {
				t.Helper()
				r := manual.NewBuilderWithScheme("test")
				r.InitialState(s.state)
				if s.target == "" {
					s.target = "test:///any"
				}
				if s.config == "" {
					s.config = "{}"
				}
				c, err := dial(s, r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return subject{c, r}
			})
		})
	}
	run("grpc-go", func(s setup, r resolver.Builder) (grpcClient, error) {
		opts := append([]grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(s.config),
			grpc.WithResolvers(r), grpc.WithConnectParams(quickConnect),
		}, s.theirs...)
		if s.dialer != nil {
			opts = append(opts, grpc.WithContextDialer(s.dialer))
		}
		return grpc.NewClient(s.target, opts...)
	})
	run("fastgrpc", func(s setup, r resolver.Builder) (grpcClient, error) {
		opts := append([]ClientOption{
			WithTransportCredentials(insecure.NewCredentials()), WithDefaultServiceConfig(s.config),
			WithResolvers(r), WithConnectParams(quickConnect),
		}, s.ours...)
		if s.dialer != nil {
			opts = append(opts, WithContextDialer(s.dialer))
		}
		return NewClient(s.target, opts...)
	})
}

const roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}]}`

// backends are servers that can be restarted at their addresses.
type backends struct {
	t       *testing.T
	addrs   []string
	servers []*Server
}

func startBackends(t *testing.T, n int) *backends {
	b := &backends{t: t}
	for range n {
		b.addrs = append(b.addrs, "127.0.0.1:0")
		b.servers = append(b.servers, nil)
		b.start(len(b.addrs) - 1)
	}
	t.Cleanup(func() {
		for _, s := range b.servers {
			s.Stop()
		}
	})
	return b
}

// start starts a server at the backend's address.
func (b *backends) start(i int, register ...func(*Server)) {
	b.t.Helper()
	var lis net.Listener
	eventually(b.t, "for the old server's address", func() (free bool) {
		var err error
		lis, err = net.Listen("tcp", b.addrs[i])
		return err == nil
	})
	b.addrs[i] = lis.Addr().String()
	s := NewServer()
	testgrpc.RegisterTestServiceServer(s, echo{})
	for _, r := range register {
		r(s)
	}
	b.servers[i] = s
	go func() { _ = s.Serve(lis) }()
}

func (b *backends) restart(i int, register ...func(*Server)) {
	b.servers[i].Stop()
	b.start(i, register...)
}

// state returns the addresses of the first n backends.
func (b *backends) state(n int) resolver.State {
	var s resolver.State
	for _, a := range b.addrs[:n] {
		s.Addresses = append(s.Addresses, resolver.Address{Addr: a})
	}
	return s
}

// spread makes calls and counts them by backend; the last count is of those that failed.
func (b *backends) spread(c grpc.ClientConnInterface, calls int) []int {
	b.t.Helper()
	counts := make([]int, len(b.addrs)+1)
	for range calls {
		var p peer.Peer
		if _, err := testgrpc.NewTestServiceClient(c).EmptyCall(testContext(b.t), &testgrpc.Empty{}, grpc.Peer(&p), grpc.WaitForReady(true)); err != nil {
			counts[len(b.addrs)]++
		} else {
			counts[slices.Index(b.addrs, p.Addr.String())]++
		}
	}
	return counts
}

// wants waits until calls are spread so, and none fails.
func (b *backends) wants(c grpc.ClientConnInterface, want ...int) {
	b.t.Helper()
	total := 0
	for _, n := range want {
		total += n
	}
	want = append(want, 0)
	eventually(b.t, fmt.Sprintf("for calls spread as %v", want), func() bool { return slices.Equal(b.spread(c, total), want) })
}

// TestBackendsComeBack checks that round robin returns to servers that were restarted
// again and again, and reaches one that is resolved later.
func TestBackendsComeBack(t *testing.T) {
	forBoth(t, func(t *testing.T, dial func(setup) subject) {
		b := startBackends(t, 4)
		c := dial(setup{config: roundRobin, state: b.state(3)})
		b.wants(c, 10, 10, 10, 0)
		for range 3 {
			b.restart(0)
			b.restart(1)
			b.wants(c, 10, 10, 10, 0)
		}
		c.resolver.UpdateState(b.state(4))
		b.wants(c, 10, 10, 10, 10)
		c.resolver.UpdateState(resolver.State{Addresses: b.state(4).Addresses[2:]})
		b.wants(c, 0, 0, 10, 10)
	})
}

// TestEndpoints checks that round robin is over endpoints, and uses one of the addresses
// of each.
func TestEndpoints(t *testing.T) {
	forBoth(t, func(t *testing.T, dial func(setup) subject) {
		b := startBackends(t, 3)
		nobody := newElsewhere(t).nobody
		c := dial(setup{config: roundRobin, state: resolver.State{Endpoints: []resolver.Endpoint{
			{Addresses: []resolver.Address{{Addr: nobody}, {Addr: b.addrs[0]}}},
			{Addresses: []resolver.Address{{Addr: b.addrs[1]}, {Addr: b.addrs[2]}}},
		}}})
		b.wants(c, 10, 10, 0)
	})
}

// TestRegisteredBalancers checks that grpc-go's other balancers run, and that a policy
// given by the resolver replaces another without a failed call.
func TestRegisteredBalancers(t *testing.T) {
	forBoth(t, func(t *testing.T, dial func(setup) subject) {
		b := startBackends(t, 2)
		c := dial(setup{state: b.state(2)})
		if n := b.spread(c, 10); n[0] != 10 {
			t.Errorf("pick_first spread calls as %v", n)
		}
		configure := func(js string) {
			s := b.state(2)
			if s.ServiceConfig = c.resolver.CC().ParseServiceConfig(js); s.ServiceConfig.Err != nil {
				t.Fatal(s.ServiceConfig.Err)
			}
			c.resolver.UpdateState(s)
		}
		configure(roundRobin)
		b.wants(c, 10, 10)
		configure(`{"loadBalancingConfig": [{"unheard_of": {}}, {"least_request_experimental": {"choiceCount": 2}}]}`)
		eventually(t, "for least_request to use both", func() bool { return slices.Min(b.spread(c, 40)[:2]) > 0 })
		configure(`{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}`)
		eventually(t, "for pick_first to use one", func() bool { return slices.Max(b.spread(c, 20)) == 20 })
	})
}

// toldBalancer is a program's own balancer, written with package base. It sends a call to
// the server that the call's metadata names, adds metadata, and records each call's end.
type toldBalancer struct {
	mu   sync.Mutex
	ends []string
}

type toldPicker struct {
	told  *toldBalancer
	conns map[string]balancer.SubConn
}

func (b *toldBalancer) Build(info base.PickerBuildInfo) balancer.Picker {
	p := &toldPicker{b, map[string]balancer.SubConn{}}
	for sc, i := range info.ReadySCs {
		weight, _ := i.Address.BalancerAttributes.Value("name").(string) //nolint:staticcheck // base's balancers get no endpoints
		p.conns[weight] = sc
	}
	return p
}

func (p *toldPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	md, _ := metadata.FromOutgoingContext(info.Ctx)
	to := strings.Join(md["to"], "")
	switch to {
	case "drop":
		return balancer.PickResult{}, status.Error(codes.ResourceExhausted, "dropped")
	case "illegal":
		return balancer.PickResult{}, status.Error(codes.NotFound, "not the balancer's to say")
	case "error":
		return balancer.PickResult{}, errors.New("no idea")
	}
	sc := p.conns[to]
	if sc == nil {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	return balancer.PickResult{SubConn: sc, Metadata: metadata.Pairs("echo", "picked for "+info.FullMethodName), Done: func(d balancer.DoneInfo) {
		p.told.mu.Lock()
		defer p.told.mu.Unlock()
		p.told.ends = append(p.told.ends, fmt.Sprintf("%v %v %v %v", status.Code(d.Err), d.BytesSent, d.BytesReceived, d.Trailer["echo-bin"]))
	}}, nil
}

// TestOwnBalancer checks that a program's balancer gets attributes, and that all it can
// say of a call is done.
func TestOwnBalancer(t *testing.T) {
	var seen []string
	forBoth(t, func(t *testing.T, dial func(setup) subject) {
		told := new(toldBalancer)
		balancer.Register(base.NewBalancerBuilder("told", told, base.Config{}))
		b := startBackends(t, 2)
		state := b.state(2)
		for i := range state.Addresses {
			state.Addresses[i].BalancerAttributes = attributes.New("name", fmt.Sprint("number", i)) //nolint:staticcheck // see above
		}
		c := dial(setup{state: state, config: `{"loadBalancingConfig": [{"told": {}}]}`})
		client := testgrpc.NewTestServiceClient(c)
		var log []string
		for _, to := range []string{"number0", "number1", "drop", "illegal", "error"} {
			var header metadata.MD
			var p peer.Peer
			ctx := metadata.AppendToOutgoingContext(testContext(t), "to", to, "echo-bin", "t")
			_, err := client.UnaryCall(ctx, request(nil), grpc.Header(&header), grpc.Peer(&p), grpc.WaitForReady(to != "error"))
			at := -1
			if p.Addr != nil {
				at = slices.Index(b.addrs, p.Addr.String())
			}
			log = append(log, fmt.Sprint(to, " ", status.Code(err), " ", header["echo"], " ", at))
		}
		ctx := metadata.AppendToOutgoingContext(testContext(t), "to", "number0")
		_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: int32(codes.DataLoss)}})
		log = append(log, status.Code(err).String())
		s, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.CloseSend()
		_, _ = s.Recv()
		short, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(testContext(t), "to", "nowhere"), time.Millisecond)
		defer cancel()
		_, err = client.EmptyCall(short, &testgrpc.Empty{})
		log = append(log, status.Code(err).String())
		told.mu.Lock()
		log = append(log, told.ends...)
		told.mu.Unlock()
		if seen == nil {
			seen = log
		} else if !slices.Equal(seen, log) {
			t.Errorf("grpc-go:\n%s\nfastgrpc:\n%s", strings.Join(seen, "\n"), strings.Join(log, "\n"))
		}
	})
}

// TestBadServiceConfigOfResolver checks that a bad config fails calls before there is a
// good one, and changes nothing afterwards.
func TestBadServiceConfigOfResolver(t *testing.T) {
	forBoth(t, func(t *testing.T, dial func(setup) subject) {
		b := startBackends(t, 2)
		bad := b.state(2)
		bad.ServiceConfig = &serviceconfig.ParseResult{Err: errors.New("unreadable")}
		c := dial(setup{state: bad})
		if _, err := testgrpc.NewTestServiceClient(c).EmptyCall(testContext(t), &testgrpc.Empty{}, grpc.WaitForReady(true)); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "unreadable") {
			t.Errorf("with a bad config: %v", err)
		}
		good := b.state(2)
		good.ServiceConfig = c.resolver.CC().ParseServiceConfig(roundRobin)
		c.resolver.UpdateState(good)
		b.wants(c, 10, 10)
		if err := c.resolver.CC().UpdateState(bad); !errors.Is(err, balancer.ErrBadResolverState) {
			t.Errorf("UpdateState with a bad config: %v", err)
		}
		b.wants(c, 10, 10)
	})
}

// TestUnixTargets checks that only the scheme makes an address a unix socket's.
func TestUnixTargets(t *testing.T) {
	b := startBackends(t, 1)
	r := manual.NewBuilderWithScheme("unixes")
	r.InitialState(b.state(1))
	if err := ping(testContext(t), dialFast(t, "unixes:///unix", WithResolvers(r))); err != nil {
		t.Error(err)
	}
	for target, want := range map[string]string{
		"dns:///unixhost:80":            "tcp unixhost:80",
		"passthrough:///unixhost:80":    "tcp unixhost:80",
		"passthrough:///unix:relative":  "unix relative",
		"passthrough:///unix:/absolute": "unix /absolute",
		"passthrough:///unix:///slash":  "unix /slash",
		"unix:relative":                 "unix relative",
	} {
		parsed, _, err := connect.ParseTarget(target, nil)
		if err != nil {
			t.Fatal(err)
		}
		endpoint := parsed.Endpoint()
		if parsed.URL.Scheme == "unix" {
			endpoint = parsed.URL.Opaque
		}
		if network, path := connect.NetworkOf(parsed, endpoint); network+" "+path != want {
			t.Errorf("%s is dialed as %s %s, want %s", target, network, path, want)
		}
	}
}

// firstHealthy is a balancer of the old kind, whose subConns are ready when they are
// healthy. It uses the first of its addresses that is.
type firstHealthy []string

func (f firstHealthy) Build(info base.PickerBuildInfo) balancer.Picker {
	for _, addr := range f {
		for sc, i := range info.ReadySCs {
			if i.Address.Addr == addr {
				return onlyPicker{sc}
			}
		}
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

type onlyPicker struct{ sc balancer.SubConn }

func (p onlyPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.sc}, nil
}

// TestHealthChecks checks that a server whose health service says so gets no calls.
func TestHealthChecks(t *testing.T) {
	forBoth(t, func(t *testing.T, dial func(setup) subject) {
		b := startBackends(t, 3)
		balancer.Register(base.NewBalancerBuilder("first_healthy", firstHealthy(b.addrs), base.Config{HealthCheck: true}))
		checks := map[int]*health.Server{}
		for i := range 2 { // the third has no health service, which counts as healthy
			checks[i] = health.NewServer()
			checks[i].SetServingStatus("echo", healthgrpc.HealthCheckResponse_SERVING)
			b.restart(i, func(s *Server) { healthgrpc.RegisterHealthServer(s, checks[i]) })
		}
		c := dial(setup{state: b.state(3), config: `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "echo"}}`})
		b.wants(c, 10, 10, 10)
		checks[0].SetServingStatus("echo", healthgrpc.HealthCheckResponse_NOT_SERVING)
		b.wants(c, 0, 10, 10)
		checks[0].SetServingStatus("echo", healthgrpc.HealthCheckResponse_SERVING)
		b.wants(c, 10, 10, 10)
		old := dial(setup{state: b.state(3), config: `{"loadBalancingConfig": [{"first_healthy": {}}], "healthCheckConfig": {"serviceName": "echo"}}`})
		b.wants(old, 10, 0, 0)
		checks[0].SetServingStatus("echo", healthgrpc.HealthCheckResponse_NOT_SERVING)
		b.wants(old, 0, 10, 0)
		checks[0].SetServingStatus("echo", healthgrpc.HealthCheckResponse_SERVING)
		b.wants(old, 10, 0, 0)
		b.restart(1) // without a health service
		b.wants(c, 10, 10, 10)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A oneSubConn is a balancer of the old kind, which changes the addresses of its only subConn. It is
// also the builder.
type oneSubConn struct {
	cc balancer.ClientConn
	sc balancer.SubConn
}

func (*oneSubConn) Name() string { return "one_subconn" }

func (*oneSubConn) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &oneSubConn{cc: cc}
}

func (b *oneSubConn) UpdateClientConnState(s balancer.ClientConnState) (err error) {
	if addrs := s.ResolverState.Addresses; b.sc != nil {
		b.sc.UpdateAddresses(addrs) //nolint:staticcheck // deprecated, but this is a balancer of the old kind
	} else if b.sc, err = b.cc.NewSubConn(addrs, balancer.NewSubConnOptions{StateListener: b.onState}); err == nil { //nolint:staticcheck // has one address later
		b.sc.Connect()
	}
	return err
}

func (b *oneSubConn) onState(s balancer.SubConnState) {
	b.cc.UpdateState(balancer.State{ConnectivityState: s.ConnectivityState, Picker: onlyPicker{b.sc}})
}

func (*oneSubConn) ResolverError(error)                                        {}
func (*oneSubConn) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (*oneSubConn) ExitIdle()                                                  {}
func (*oneSubConn) Close()                                                     {}

// TestUpdateAddresses checks that a subConn keeps its connection while its address is listed.
func TestUpdateAddresses(t *testing.T) {
	balancer.Register(&oneSubConn{})
	b := startBackends(t, 2)
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(b.state(1))
	c := dialFast(t, "test:///any", WithResolvers(r), WithDefaultServiceConfig(`{"loadBalancingConfig": [{"one_subconn": {}}]}`))
	b.wants(c, 10, 0)
	addrs := b.state(2).Addresses
	r.UpdateState(resolver.State{Addresses: []resolver.Address{addrs[1], addrs[0]}})
	if got := b.spread(c, 10); got[0] != 10 {
		t.Errorf("the calls are spread as %v after the address moved, want all at the first", got)
	}
	r.UpdateState(resolver.State{Addresses: addrs[1:]})
	b.wants(c, 0, 10)
}
