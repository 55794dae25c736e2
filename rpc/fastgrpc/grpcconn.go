package fastgrpc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
)

// ClientConn returns a *grpc.ClientConn whose calls this client makes. It is for libraries that
// accept no other type, and interceptors get it. Its Target, CanonicalTarget and state are the
// client's. It opens no connection of its own. Closing it closes the client, and the other way
// around. It does not know the client's service config, so its method GetMethodConfig returns
// nothing. Its method ResetConnectBackoff does nothing.
func (c *Client) ClientConn() *grpc.ClientConn {
	c.grpcConn.once.Do(c.makeGRPCConn)
	return c.grpcConn.conn.Load()
}

// A grpcConn is the grpc.ClientConn of a Client. Its interceptors pass all calls to the Client, so
// its resolver and balancer have one task: they pass on the Client's state.
type grpcConn struct {
	once sync.Once
	conn atomic.Pointer[grpc.ClientConn]
	// states gets the client's states. channel.set.Mu guards it.
	states balancer.ClientConn
}

func (c *Client) makeGRPCConn() {
	conn, err := grpc.NewClient(c.target,
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return c.Invoke(ctx, method, req, reply, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return c.NewStream(ctx, desc, method, opts...)
		}),
		grpc.WithResolvers(stateResolver{client: c}),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+stateBalancerName+`": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // NewClient requires some
		grpc.WithAuthority(c.authority), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
	)
	if err != nil { // cannot happen, because this package has parsed the target by the same rules
		panic(fmt.Sprintf("fastgrpc: grpc.NewClient refuses the target %q: %v", c.target, err))
	}
	conn.Connect() // starts the resolver
	c.grpcConn.conn.Store(conn)
	c.channel.set.Mu.Lock()
	closed := c.channel.set.Closed
	c.channel.set.Mu.Unlock()
	if closed {
		_ = conn.Close()
	}
}

// close closes the grpc.ClientConn, if there is one. The channel is closed.
func (g *grpcConn) close() {
	if conn := g.conn.Load(); conn != nil {
		_ = conn.Close()
	}
}

// stateBalancerName is the name of stateBalancers. It is registered with grpc-go.
const stateBalancerName = "fastgrpc_state"

func init() { balancer.Register(stateBalancers{}) }

// clientKey is the key of the Client in the resolver's attributes.
type clientKey struct{}

// A stateResolver resolves the target of a grpc.ClientConn: it tells the balancer the Client.
type stateResolver struct{ client *Client }

func (r stateResolver) Scheme() string { return r.client.channel.target.URL.Scheme }

func (r stateResolver) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	return r, cc.UpdateState(resolver.State{Attributes: attributes.New(clientKey{}, r.client)})
}

func (stateResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close is called when the program closes the grpc.ClientConn.
func (r stateResolver) Close() { _ = r.client.channel.close() }

type stateBalancers struct{}

func (stateBalancers) Name() string { return stateBalancerName }

func (stateBalancers) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &stateBalancer{cc: cc}
}

// A stateBalancer publishes a Client's state as the state of a grpc.ClientConn.
type stateBalancer struct {
	cc     balancer.ClientConn
	client *Client
	asked  bool // makeGRPCConn has called Connect
}

func (b *stateBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	b.client = s.ResolverState.Attributes.Value(clientKey{}).(*Client)
	ch := &b.client.channel
	ch.set.Mu.Lock()
	defer ch.set.Mu.Unlock()
	b.client.grpcConn.states = b.cc
	b.client.grpcConn.publish(b.client.State())
	return nil
}

// publish passes on the state to the grpc.ClientConn, if there is one. channel.set.Mu is held.
func (g *grpcConn) publish(s connectivity.State) {
	if g.states != nil {
		g.states.UpdateState(balancer.State{ConnectivityState: s, Picker: base.NewErrPicker(balancer.ErrNoSubConnAvailable)})
	}
}

// ExitIdle is called for each call of grpc.ClientConn.Connect. The first is makeGRPCConn's.
func (b *stateBalancer) ExitIdle() {
	if b.asked {
		b.client.Connect()
	}
	b.asked = true
}

func (*stateBalancer) ResolverError(error)                                        {}
func (*stateBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (*stateBalancer) Close()                                                     {}
