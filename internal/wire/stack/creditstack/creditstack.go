// Package creditstack is the stack `creditrpc`: the library wirelab.dev/rpc/creditrpc at both
// ends, over TCP, with or without TLS.
//
// The library runs on its defaults; only the message limit is raised, to the limit of all
// stacks. Reflection and health checks are served as by the other gRPC libraries, though
// only a client of this library can ask for them.
package creditstack

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/creditrpc"
)

// Stack is creditrpc.
type Stack struct{}

var (
	_ stack.Stack            = Stack{}
	_ stack.SettingsReporter = Stack{}
)

const (
	name = "creditrpc"
	// protocol is what both ends agree to over TLS.
	protocol = creditrpc.ALPN

	windowKey = "window"
	callsKey  = "calls"
	aliasKey  = "alias"
	spinKey   = "spin"
)

// Info describes the stack. It is made for few connections and many callers.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: name, Summary: "wirelab's own framed RPC: protobuf over TCP, senders wait for the receiver's credit",
		Options: append([]scenario.Option{
			{Key: windowKey, Parse: scenario.BytesUpTo(1 << 30), Help: "SIZE: what a client may have sent on a connection that the server has not taken in, in place of 2 MiB"},
			{Key: callsKey, Parse: scenario.Count, Help: "N: calls that a client may have under way on a connection, in place of 1,024; more wait at the client, in the order of asking"},
			{Key: aliasKey, Values: []string{"off", "on"}, Default: "off", Help: "on: long bytes fields of requests point into the receive buffer until the handler returns"},
			{Key: spinKey, Parse: scenario.Parser(time.ParseDuration), Help: "TIME: how long both ends look for something to read before their threads sleep, as in 100us; it burns CPUs, for few callers"},
		}, stack.TLSOptions(stack.OptionalTLS)...),
		Connection: scenario.Connection{Mode: scenario.Shared},
	}
}

// settings are a variant's options.
type settings struct {
	window, calls int // 0: the library's
	alias         bool
	spin          time.Duration // 0: the library's
	security      stack.Security
}

func (s Stack) read(v scenario.Variant) (settings, error) {
	o := stack.ReadOptions(s, v)
	own := settings{
		window: scenario.Value[int](o, windowKey), calls: scenario.Value[int](o, callsKey),
		alias: o.Text(aliasKey) == "on", spin: scenario.Value[time.Duration](o, spinKey), security: stack.SecurityOf(o),
	}
	const most = time.Second
	if own.spin < 0 || own.spin > most {
		return own, fmt.Errorf("variant %s: spin: want 0 to %v, found %v", v, most, own.spin)
	}
	return own, o.Err()
}

// NewServer makes a server.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	own, err := s.read(v)
	if err != nil {
		return nil, err
	}
	return stack.NewGRPCServer(stack.GRPCServerPlan[*creditrpc.Server, creditrpc.ServerOption]{
		Name: name, Security: own.security, Stopped: creditrpc.ErrServerStopped, Protocol: protocol,
		New: creditrpc.NewServer, Options: own.tuning().Server.Options(), Credentials: creditrpc.Creds,
	}), nil
}

// NewClient makes a client. It opens the connections that are kept, one after the other.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	own, err := s.read(v)
	if err != nil {
		return nil, err
	}
	connector, err := stack.NewConnector(s, v, own.security, target, protocol)
	if err != nil {
		return nil, err
	}
	end := &clientEnd{settings: own, Connector: connector}
	return connector.NewClient(ctx, end.open)
}

// clientEnd is what a client needs to open its connections.
type clientEnd struct {
	settings
	*stack.Connector
}

// open makes a client of one connection and waits until it can carry calls. It returns the
// first failure, where the library would try again.
func (e *clientEnd) open(ctx context.Context, clock *stack.FirstByte) (stack.Client, error) {
	ahead, err := e.Preconnect(ctx)
	if err != nil {
		return nil, err
	}
	defer ahead.Close()
	options := append(e.tuning().Client.Options(),
		creditrpc.WithTransportCredentials(e.Credentials()),
		creditrpc.WithDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ahead.Dial(ctx) }),
	)
	if clock != nil {
		options = append(options, timed(clock)...)
	}
	c, err := creditrpc.NewClient("passthrough:///"+e.Target.Address, options...)
	if err != nil {
		return nil, e.Fail(ctx, err)
	}
	if err := c.Connect(ctx); err != nil {
		_ = c.Close() // err is the error to report
		return nil, e.Fail(ctx, err)
	}
	e.Dialer.UsedProtocol(protocol)
	return c, nil
}

// timed stops the clock with a call's first message. The library reports nothing earlier.
func timed(clock *stack.FirstByte) []creditrpc.ClientOption {
	return []creditrpc.ClientOption{
		creditrpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err == nil {
				clock.Stop()
			}
			return err
		}),
		creditrpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := begin(ctx, desc, cc, method, opts...)
			return timedStream{stream, clock}, err
		}),
	}
}

type timedStream struct {
	grpc.ClientStream
	clock *stack.FirstByte
}

// RecvMsg stops the clock with the first message.
func (s timedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.clock.Stop()
	}
	return err
}

// Settings lists what is not the library's default.
func (s Stack) Settings(v scenario.Variant, _ stack.Target) ([]tuning.Setting, error) {
	own, err := s.read(v)
	if err != nil {
		return nil, err
	}
	ends := own.tuning()
	return append(ends.Server.Settings(), ends.Client.Settings()...), nil
}

type (
	serverOption = tuning.Option[creditrpc.ServerOption]
	clientOption = tuning.Option[creditrpc.ClientOption]
)

func (s settings) tuning() (ends tuning.Ends[creditrpc.ServerOption, creditrpc.ClientOption]) {
	ends.Add(tuning.Setting{Value: strconv.Itoa(stack.MaxMessageBytes), Default: "4194304", Why: "one message limit for all stacks"},
		serverOption{Name: "creditrpc.MaxReceive", Apply: creditrpc.MaxReceive(stack.MaxMessageBytes)},
		clientOption{Name: "creditrpc.WithMaxReceive", Apply: creditrpc.WithMaxReceive(stack.MaxMessageBytes)})
	if s.window > 0 {
		ends.Server.Add(tuning.Setting{Side: tuning.Server, Name: "creditrpc.Window", Value: strconv.Itoa(s.window), Default: "2097152", Why: "the variant's option window"}, creditrpc.Window(s.window))
	}
	if s.calls > 0 {
		ends.Server.Add(tuning.Setting{Side: tuning.Server, Name: "creditrpc.MaxCalls", Value: strconv.Itoa(s.calls), Default: "1024", Why: "the variant's option calls"}, creditrpc.MaxCalls(s.calls))
	}
	if s.alias {
		ends.Server.Add(tuning.Setting{Side: tuning.Server, Name: "creditrpc.AliasRequests", Value: "set", Default: "not set", Why: "the variant's option alias"}, creditrpc.AliasRequests())
	}
	if s.spin > 0 {
		ends.Add(tuning.Setting{Value: s.spin.String(), Default: "0s", Why: "the variant's option spin"},
			serverOption{Name: "creditrpc.Spin", Apply: creditrpc.Spin(s.spin)},
			clientOption{Name: "creditrpc.WithSpin", Apply: creditrpc.WithSpin(s.spin)})
	}
	return ends
}
