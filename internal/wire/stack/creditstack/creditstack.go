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
	"strconv"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/creditrpc"
)

const (
	windowKey = "window"
	callsKey  = "calls"
	aliasKey  = "alias"
	spinKey   = "spin"
)

type adapter struct {
	stack.GRPCStack[creditrpc.ServerOption, creditrpc.ClientOption]
}

// Stack is creditrpc. It is made for few connections and many callers.
var Stack = adapter{stack.NewGRPCStack(stack.GRPCAdapter[creditrpc.ServerOption, creditrpc.ClientOption]{
	Info: stack.Info{
		Name: "creditrpc", Summary: "wirelab's own framed RPC: protobuf over TCP, senders wait for the receiver's credit",
		Options: []scenario.Option{
			{Key: windowKey, Parse: scenario.BytesUpTo(1 << 30), Help: "SIZE: what a client may have sent on a connection that the server has not taken in, in place of 2 MiB"},
			{Key: callsKey, Parse: scenario.Count, Help: "N: calls that a client may have under way on a connection, in place of 1,024; more wait at the client, in the order of asking"},
			{Key: aliasKey, Values: []string{"off", "on"}, Default: "off", Help: "on: long bytes fields of requests point into the receive buffer until the handler returns"},
			{Key: spinKey, Parse: scenario.Parser(time.ParseDuration), Help: "TIME: how long both ends look for something to read before their threads sleep, as in 100us; it burns CPUs, for few callers"},
		},
	},
	Protocol: creditrpc.ALPN, Stopped: creditrpc.ErrServerStopped,
	ServerCredentials: creditrpc.Creds, ClientCredentials: creditrpc.WithTransportCredentials, Timed: timed,
	Plan: func(_ scenario.Variant, o *scenario.Options) stack.GRPCPlan[creditrpc.ServerOption, creditrpc.ClientOption] {
		return stack.GRPCPlan[creditrpc.ServerOption, creditrpc.ClientOption]{
			Ends:      read(o).tuning(),
			NewServer: func(options ...creditrpc.ServerOption) stack.GRPCLibrary { return creditrpc.NewServer(options...) },
			Connect:   connect,
		}
	},
})}

type settings struct {
	window, calls int // 0: the library's
	alias         bool
	spin          time.Duration // 0: the library's
}

func read(o *scenario.Options) settings {
	own := settings{
		window: scenario.Value[int](o, windowKey), calls: scenario.Value[int](o, callsKey),
		alias: o.Text(aliasKey) == "on", spin: scenario.Value[time.Duration](o, spinKey),
	}
	const most = time.Second
	if own.spin < 0 || own.spin > most {
		o.Fail(fmt.Errorf("spin: want 0 to %v, found %v", most, own.spin))
	}
	return own
}

// connect makes a client of one connection.
func connect(ctx context.Context, address string, dial stack.DialFunc, options ...creditrpc.ClientOption) (stack.Client, error) {
	c, err := creditrpc.NewClient("passthrough:///"+address, append(options, creditrpc.WithDialer(dial))...)
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		_ = c.Close() // err is the error to report
		return nil, err
	}
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

func (s timedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.clock.Stop()
	}
	return err
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
