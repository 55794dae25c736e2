// Package facade makes a *grpc.ClientConn whose calls another client makes. It uses only grpc-go's
// public extension points: interceptors pass on all calls, and a resolver and a balancer have the
// one task of passing on the client's state.
package facade

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// A Client makes the calls of a facade.
type Client interface {
	grpc.ClientConnInterface
	Connect()
	GetState() connectivity.State
	// CloseFromFacade is called when the program closes the grpc.ClientConn.
	CloseFromFacade()
}

// A Facade holds a grpc.ClientConn.
type Facade struct {
	Conn   *grpc.ClientConn
	client Client

	mu     sync.Mutex
	states balancer.ClientConn // gets the states; nil until the balancer is built
	asked  bool                // New has called Connect
}

// New returns the facade of a client. target's scheme and authority are those that the client has
// found. New panics if grpc-go refuses the target.
func New(c Client, target, scheme, authority string) *Facade {
	f := &Facade{client: c}
	r := manual.NewBuilderWithScheme(scheme)
	r.InitialState(resolver.State{Attributes: attributes.New(facadeKey{}, f)})
	r.CloseCallback = c.CloseFromFacade
	var err error
	f.Conn, err = grpc.NewClient(target,
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return c.Invoke(ctx, method, req, reply, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return c.NewStream(ctx, desc, method, opts...)
		}),
		grpc.WithResolvers(r),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+balancerName+`": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // NewClient requires some
		grpc.WithAuthority(authority), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
	)
	if err != nil {
		panic(fmt.Sprintf("fastgrpc: grpc.NewClient refuses the target %q: %v", target, err))
	}
	f.Conn.Connect() // starts the resolver
	return f
}

// Publish passes on the client's state, when it has changed. f may be nil.
func (f *Facade) Publish() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.states != nil {
		f.states.UpdateState(balancer.State{ConnectivityState: f.client.GetState(), Picker: base.NewErrPicker(balancer.ErrNoSubConnAvailable)})
	}
}

// balancerName is the name of stateBalancers in grpc-go's registry.
const balancerName = "fastgrpc_state"

func init() { //nolint:gochecknoinits // the registry has no lock, so grpc-go allows it only here
	balancer.Register(stateBalancers{})
}

// facadeKey is the key of the Facade in the resolver's attributes.
type facadeKey struct{}

type stateBalancers struct{}

func (stateBalancers) Name() string { return balancerName }

func (stateBalancers) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &stateBalancer{cc: cc}
}

// A stateBalancer publishes a client's state as the state of a grpc.ClientConn.
type stateBalancer struct {
	cc balancer.ClientConn
	of *Facade
}

func (b *stateBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	b.of = s.ResolverState.Attributes.Value(facadeKey{}).(*Facade)
	b.of.mu.Lock()
	b.of.states = b.cc
	b.of.mu.Unlock()
	b.of.Publish()
	return nil
}

// ExitIdle is called for each call of grpc.ClientConn.Connect. The first one is New's.
func (b *stateBalancer) ExitIdle() {
	if b.of.asked {
		b.of.client.Connect()
	}
	b.of.asked = true
}

func (*stateBalancer) ResolverError(error)                                        {}
func (*stateBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (*stateBalancer) Close()                                                     {}
