// Package load puts fastgrpc under many calls, many connections and many streams, on poor
// links and with little CPU, and wants each call to end as its kind does, with its own
// content. Peers are fastgrpc and grpc-go. The soak has creditrpc and chanpool beside them. The
// package judges no speed.
//
//	mix_test.go        calls of all kinds, and the service that they call
//	ledger_test.go     how often each call was made; how many bytes are under way
//	soak_test.go       all libraries for a time, with connections cut and servers replaced
//	many_test.go       10,000 connections; 10,000 streams on one
//	processors_test.go few processors, and half of one
//	link_test.go       delay and loss
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/chanpool"
	"wirelab.dev/rpc/creditrpc"
	"wirelab.dev/rpc/fastgrpc"
)

// A process that this test starts does one of these instead of the tests.
const roleVariable = "FASTGRPC_LOAD_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "serve":
		exitWith(serveConnections())
	case "mix":
		exitWith(mixOfAPeer())
	default:
		exitWith(fmt.Errorf("%s is %q", roleVariable, role))
	}
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A server has the methods of both libraries' servers.
type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
	GracefulStop()
}

// A connection has the methods of both libraries' clients.
type connection interface {
	grpc.ClientConnInterface
	Close() error
}

// peers makes the server and the client of a pair of libraries.
type peers struct {
	name      string
	newServer func(credentials.TransportCredentials, keepalive.ServerParameters) server
	connect   func(target string, creds credentials.TransportCredentials, dial dialer) (connection, error)
	kinds     []kind // of calls in the soak; nil: all
}

// dialer connects; nil is the library's own.
type dialer func(context.Context, string) (net.Conn, error)

func fastServer(creds credentials.TransportCredentials, age keepalive.ServerParameters) server {
	return fastgrpc.NewServer(fastgrpc.Creds(creds), fastgrpc.KeepaliveParams(age), fastgrpc.MaxRecvMsgSize(longest+1<<10))
}

func grpcServer(creds credentials.TransportCredentials, age keepalive.ServerParameters) server {
	return grpc.NewServer(grpc.Creds(creds), grpc.KeepaliveParams(age), grpc.MaxRecvMsgSize(longest+1<<10))
}

// creditServer has no rule for the age of connections.
func creditServer(creds credentials.TransportCredentials, _ keepalive.ServerParameters) server {
	return creditrpc.NewServer(creditrpc.Creds(creds), creditrpc.MaxReceive(longest+1<<10))
}

func creditConnection(target string, creds credentials.TransportCredentials, _ dialer) (connection, error) {
	return creditrpc.NewClient(strings.TrimPrefix(target, "passthrough:///"), creditrpc.WithTransportCredentials(creds),
		creditrpc.WithMaxReceive(longest+1<<10), creditrpc.WithBackoff(10*time.Millisecond), creditrpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}

// often makes clients connect again soon.
var often = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond},
	MinConnectTimeout: 20 * time.Second,
}

func fastConnection(target string, creds credentials.TransportCredentials, dial dialer) (connection, error) {
	opts := []fastgrpc.ClientOption{
		fastgrpc.WithTransportCredentials(creds), fastgrpc.WithConnectParams(often),
		fastgrpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(longest+1<<10)),
	}
	if dial != nil {
		opts = append(opts, fastgrpc.WithContextDialer(dial))
	}
	return fastgrpc.NewClient(target, opts...)
}

func grpcConnection(target string, creds credentials.TransportCredentials, dial dialer) (connection, error) {
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithConnectParams(often),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(longest+1<<10)),
	}
	if dial != nil {
		opts = append(opts, grpc.WithContextDialer(dial))
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		return nil, err
	}
	return guardedConn{conn}, nil
}

// guardedConn mends a fault of grpc-go since 1.84: a stream that is refused twice by
// servers that leave ends with io.EOF, as if it had ended well. Its RecvMsg tells the
// status when it is called again.
type guardedConn struct{ *grpc.ClientConn }

func (c guardedConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.ClientConn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return guardedStream{s, desc.ServerStreams}, nil
}

type guardedStream struct {
	grpc.ClientStream
	serverStreams bool
}

func (s guardedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case !s.serverStreams: // a second call was seen to wait for ever, beyond its deadline
		return status.Error(codes.Unavailable, "a single answer was announced and is missing")
	}
	return s.ClientStream.RecvMsg(m)
}

var allPeers = []peers{
	{name: "fastgrpc", newServer: fastServer, connect: fastConnection},
	{name: "fastgrpc's client, grpc-go's server", newServer: grpcServer, connect: fastConnection},
	{name: "grpc-go's client, fastgrpc's server", newServer: fastServer, connect: grpcConnection},
}

// creditPeers speak no gRPC, so they are only in the soak.
var creditPeers = peers{name: "creditrpc", newServer: creditServer, connect: creditConnection, kinds: kinds[:len(kinds)-1]}

// pooled returns peers whose client is a pool of channels, which often changes its size.
func pooled(p peers) peers {
	connect := p.connect
	p.name = "chanpool over " + p.name
	p.connect = func(target string, creds credentials.TransportCredentials, dial dialer) (connection, error) {
		open := func(context.Context) (chanpool.Channel, error) { return connect(target, creds, dial) }
		return chanpool.New(open, chanpool.Max(4), chanpool.Epoch(5*time.Millisecond))
	}
	return p
}

// soakPeers lists the peers of the soak.
func soakPeers() []peers {
	return append(slices.Clone(allPeers), creditPeers, pooled(allPeers[0]), pooled(creditPeers))
}

// theirs are the libraries that fastgrpc is compared with.
var theirs = peers{name: "grpc-go", newServer: grpcServer, connect: grpcConnection}

// mix makes n calls of all kinds, some at a time, over one connection.
func mix(ctx context.Context, p peers, lis net.Listener, dial dialer, calls int) error {
	s := p.newServer(insecure.NewCredentials(), keepalive.ServerParameters{})
	testgrpc.RegisterTestServiceServer(s, service{})
	go func() { _ = s.Serve(lis) }() // ends with Stop
	defer s.Stop()
	conn, err := p.connect("passthrough:///"+lis.Addr().String(), insecure.NewCredentials(), dial)
	if err != nil {
		return err
	}
	defer conn.Close()
	return callAll(ctx, conn, calls)
}

const atOnce = 20

func callAll(ctx context.Context, conn grpc.ClientConnInterface, calls int) error {
	var begun atomic.Int64
	var callers sync.WaitGroup
	failures := make(chan error, atOnce)
	for i := range atOnce {
		callers.Go(func() {
			c := &caller{client: testgrpc.NewTestServiceClient(conn), random: rand.New(rand.NewPCG(1, uint64(i))), kinds: kinds}
			for {
				n := int(begun.Add(1)) - 1
				if n >= calls {
					return
				}
				if _, err := c.one(ctx, kinds[n%len(kinds)], false); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	callers.Wait()
	close(failures)
	return <-failures // nil without any
}
