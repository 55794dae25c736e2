// Package creditstack is the stack `creditrpc`. Both ends use the library
// wirelab.dev/rpc/creditrpc over TCP, with or without TLS. Only the message limit differs from the
// library's defaults. Only a client of this library can ask for reflection and health checks.
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

// Stack is creditrpc, which suits few connections with many callers.
var Stack = adapter{stack.NewGRPCStack(stack.GRPCAdapter[creditrpc.ServerOption, creditrpc.ClientOption]{
	Info: stack.Info{
		Name: "creditrpc", Summary: "wirelab's own framed RPC: protobuf over TCP, senders wait for the receiver's credit",
		Options: []scenario.Option{
			{Key: windowKey, Parse: scenario.BytesUpTo(1 << 30), Help: "SIZE: unread bytes that a client may send on a connection, in place of 2 MiB"},
			{Key: callsKey, Parse: scenario.Count, Help: "N: calls that a client may have in progress on a connection, in place of 1,024; further calls wait at the client, first come, first served"},
			{Key: aliasKey, Values: []string{"off", "on"}, Default: "off", Help: "on: long bytes fields of requests point into the receive buffer until the handler returns"},
			{Key: spinKey, Parse: scenario.Parser(time.ParseDuration), Help: "TIME: how long both ends poll for data before their threads sleep, as in 100us; polling keeps CPUs busy, and suits few callers"},
		},
	},
	Protocol: creditrpc.ALPN, Stopped: creditrpc.ErrServerStopped,
	ServerCredentials: creditrpc.Creds, ClientCredentials: creditrpc.WithTransportCredentials, Timed: timedOptions,
	Plan: func(_ scenario.Variant, o *scenario.Options) stack.GRPCPlan[creditrpc.ServerOption, creditrpc.ClientOption] {
		return stack.GRPCPlan[creditrpc.ServerOption, creditrpc.ClientOption]{
			Ends:      tunedOptions(o),
			NewServer: func(options ...creditrpc.ServerOption) stack.GRPCLibrary { return creditrpc.NewServer(options...) },
			Connect:   dialClient,
		}
	},
})}

func dialClient(ctx context.Context, address string, dial stack.DialFunc, options ...creditrpc.ClientOption) (stack.Client, error) {
	c, err := creditrpc.NewClient("passthrough:///"+address, append(options, creditrpc.WithDialer(dial))...)
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		_ = c.Close() // ignore this error: err is the cause
		return nil, err
	}
	return c, nil
}

// timedOptions returns options that stop the clock at a call's first message, because the library
// reports no earlier event.
func timedOptions(clock *stack.FirstByte) []creditrpc.ClientOption {
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

// tunedOptions returns the options and settings that differ from creditrpc's defaults.
func tunedOptions(o *scenario.Options) (ends tuning.Ends[creditrpc.ServerOption, creditrpc.ClientOption]) {
	server := func(name, value, library, key string, option creditrpc.ServerOption) {
		ends.Server.Add(tuning.Setting{Side: tuning.Server, Name: name, Value: value, Default: library, Why: stack.OptionReason(key)}, option)
	}
	ends.Add(tuning.Setting{Value: strconv.Itoa(stack.MaxMessageBytes), Default: "4194304", Why: stack.MessageLimitReason},
		serverOption{Name: "creditrpc.MaxReceive", Apply: creditrpc.MaxReceive(stack.MaxMessageBytes)},
		clientOption{Name: "creditrpc.WithMaxReceive", Apply: creditrpc.WithMaxReceive(stack.MaxMessageBytes)})
	if window := scenario.Value[int](o, windowKey); window > 0 {
		server("creditrpc.Window", strconv.Itoa(window), "2097152", windowKey, creditrpc.Window(window))
	}
	if calls := scenario.Value[int](o, callsKey); calls > 0 {
		server("creditrpc.MaxCalls", strconv.Itoa(calls), "1024", callsKey, creditrpc.MaxCalls(calls))
	}
	if o.On(aliasKey) {
		server("creditrpc.AliasRequests", "set", "not set", aliasKey, creditrpc.AliasRequests())
	}
	const most = time.Second
	if spin := scenario.Value[time.Duration](o, spinKey); spin < 0 || spin > most {
		o.Fail(fmt.Errorf("spin: want 0 to %v, found %v", most, spin))
	} else if spin > 0 {
		ends.Add(tuning.Setting{Value: spin.String(), Default: "0s", Why: stack.OptionReason(spinKey)},
			serverOption{Name: "creditrpc.Spin", Apply: creditrpc.Spin(spin)},
			clientOption{Name: "creditrpc.WithSpin", Apply: creditrpc.WithSpin(spin)})
	}
	return ends
}
