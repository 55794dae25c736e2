// Package grpcstack is the stack `grpc`: grpc-go over HTTP/2, with or without TLS, used as its
// documentation recommends. Only the message limit differs from the defaults. The server also has
// reflection and health checks, so that grpcurl and probes work.
//
// The package must not change a default without a named option.
package grpcstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/stack"
)

const (
	name           = "grpc"
	connectionsKey = "conns"
)

type adapter struct {
	stack.GRPCStack[grpc.ServerOption, grpc.DialOption]
}

// Stack is grpc-go.
//
// Smaller buffers, and connections without resolver, retries, health checks and idle timer, were
// measured with one connection per call. None made a significant difference.
var Stack = adapter{stack.NewGRPCStack(stack.GRPCAdapter[grpc.ServerOption, grpc.DialOption]{
	Info: stack.Info{
		Name: name, Summary: "gRPC by grpc-go: protobuf over HTTP/2",
		Options: append([]scenario.Option{{
			Key: connectionsKey, Parse: scenario.Count, Role: scenario.ConnectionsRole,
			Help: "N: N connections for all clients, used in turn; overrides the connection mode",
		}, stack.PoolOption(), stack.CallerOption(name, generator.GRPC)}, tuningOptions()...),
		Protocol: "HTTP/2",
	},
	Protocol: stack.HTTP2, Stopped: grpc.ErrServerStopped,
	ServerCredentials: grpc.Creds, ClientCredentials: grpc.WithTransportCredentials,
	Timed: func(clock *stack.FirstByte) []grpc.DialOption {
		return []grpc.DialOption{grpc.WithStatsHandler(firstByte{clock})}
	},
	Handshake: struct{ Name, Default string }{"grpc.ConnectionTimeout", "2m0s"},
	Plan:      plan,
})}

func plan(v scenario.Variant, o *scenario.Options) stack.GRPCPlan[grpc.ServerOption, grpc.DialOption] {
	memory, connections := scenario.Value[*poolTiers](o, tiersKey), scenario.Value[int](o, connectionsKey)
	if stack.HasPoolOption(v) && (!stack.HasOwnClient(v) || connections > 0) {
		o.Fail(errors.New("pool=auto sets the connections of the stack's own client: leave out conns and caller, or pool"))
	}
	return stack.GRPCPlan[grpc.ServerOption, grpc.DialOption]{
		Ends: tunedOptions(o), Settings: []tuning.Setting{dialerSetting}, Connections: connections,
		NewServer: func(options ...grpc.ServerOption) stack.GRPCLibrary {
			memory.makeDefault()
			return grpc.NewServer(options...)
		},
		Connect: func(ctx context.Context, address string, dial stack.DialFunc, options ...grpc.DialOption) (stack.Client, error) {
			memory.makeDefault()
			return connect(ctx, address, dial, options...)
		},
	}
}

var dialerSetting = tuning.Setting{
	Side: tuning.Client, Name: "grpc.WithContextDialer", Value: "the laboratory's: net.Dialer, with TCP keepalive after 15s",
	Default: "net.Dialer, with TCP keepalive as the system has it", Why: "connections of all stacks are opened, counted and timed alike",
}

// client is a grpc.ClientConn with one connection. It keeps the connection's last error, because
// grpc-go keeps only the error's text.
type client struct {
	*grpc.ClientConn
	open   stack.DialFunc
	reason atomic.Pointer[error]
}

// firstByte also stops at the trailer: grpc-go reports nothing else for answers without messages.
type firstByte struct{ *stack.FirstByte }

func (f firstByte) HandleRPC(ctx context.Context, what stats.RPCStats) {
	if _, is := what.(*stats.InTrailer); is {
		f.Stop()
	}
	f.FirstByte.HandleRPC(ctx, what)
}

// connect makes a grpc.ClientConn that uses the dial function, and waits until it can carry calls.
func connect(ctx context.Context, target string, dial stack.DialFunc, options ...grpc.DialOption) (stack.Client, error) {
	c := &client{open: dial}
	var err error
	if c.ClientConn, err = grpc.NewClient(target, append(options, grpc.WithContextDialer(c.dial))...); err != nil {
		return nil, err
	}
	if err := c.waitUntilReady(ctx); err != nil {
		_ = c.Close() // ignore this error: err is the cause
		return nil, err
	}
	return c, nil
}

func (c *client) dial(ctx context.Context, address string) (net.Conn, error) {
	opened, err := c.open(ctx, address)
	if err != nil {
		c.reason.Store(&err)
		return nil, err
	}
	return &watchedConn{Conn: opened, client: c}, nil
}

func (c *client) lastError() error {
	if reason := c.reason.Load(); reason != nil {
		return *reason
	}
	return nil
}

// waitUntilReady waits until the connection can carry calls. It returns the first failure, after
// which grpc-go would try again.
func (c *client) waitUntilReady(ctx context.Context) error {
	c.Connect()
	for {
		state := c.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return errors.Join(errors.New("the peer does not speak HTTP/2"), c.lastError())
		}
		if !c.WaitForStateChange(ctx, state) {
			return fmt.Errorf("wait for the connection: %w", ctx.Err())
		}
	}
}

// Invoke makes a unary call over a guarded stream. It adds a known cause to the error.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	stream, err := c.NewStream(ctx, &unaryDesc, method, options...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(args); err != nil {
		return c.explain(err)
	}
	return c.explain(stream.RecvMsg(reply))
}

var unaryDesc grpc.StreamDesc

// NewStream adds a known cause to the error of starting a stream. It does not change later errors.
func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConn.NewStream(ctx, desc, method, options...)
	if err != nil {
		return nil, c.explain(err)
	}
	return guardedStream{stream}, nil
}

// guardedStream corrects the result of calls that the server refused twice. grpc-go retries a
// refused call. If the second attempt is refused before its request is written, RecvMsg returns
// io.EOF (since v1.84), as after a success. A second RecvMsg then returns the true status. After a
// success, a second RecvMsg returns io.EOF again.
type guardedStream struct{ grpc.ClientStream }

func (s guardedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if errors.Is(err, io.EOF) {
		err = s.ClientStream.RecvMsg(m)
	}
	return err
}

// explain adds the connection's last error to err, if err contains that error's text.
func (c *client) explain(err error) error {
	if err == nil || status.Code(err) != codes.Unavailable {
		return err
	}
	if reason := c.lastError(); reason != nil && strings.Contains(status.Convert(err).Message(), reason.Error()) {
		return stack.WithCause(err, reason)
	}
	return err
}

// watchedConn keeps the first read error of a connection.
type watchedConn struct {
	net.Conn
	client *client
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.client.reason.Store(&err)
	}
	return n, err
}

// NetConn returns the wrapped connection, which credentials need to find TLS.
func (w *watchedConn) NetConn() net.Conn { return w.Conn }
