// Package rivalstack describes the stacks kitex, drpc, ttrpc and rpcx, which use other Go
// libraries. Their code is in a program of its own, the peer rivals (folder peers/rivals), so that
// wirelab does not depend on these libraries. That program uses the descriptions of this package,
// so both programs accept the same variants.
//
// The package must not import the libraries.
package rivalstack

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
)

// Peer is the name of the peer that has the stacks.
const Peer = "rivals"

// The options of the stacks.
const (
	FramingKey = "framing" // of kitex
	PoolKey    = "pool"    // of drpc
)

const mux = "mux" // a value of FramingKey

// Stack is the description of one stack.
type Stack struct{ *description }

type description struct {
	info    stack.Info
	secured bool // it has TLS
	// why says for a variant why it carries no streams. It returns "" if the variant carries them.
	why func(scenario.Variant) string
}

var (
	_ stack.Stack             = Stack{}
	_ stack.PeerCarried       = Stack{}
	_ stack.KindLimiter       = Stack{}
	_ stack.ConnectionChooser = Stack{}
)

// The stacks. None of their libraries retries a call.
var (
	// Kitex has no TLS options, because kitex's server has none.
	Kitex = Stack{&description{
		info: stack.Info{
			Name: "kitex", Summary: "CloudWeGo's kitex, on its own network poller: gRPC, or TTHeader frames",
			Connection: scenario.Connection{Mode: scenario.Shared},
			Options: []scenario.Option{{
				Key: FramingKey, Values: []string{"grpc", mux}, Default: "grpc",
				Help: "grpc: gRPC over HTTP/2; mux: TTHeader frames with kitex's connection multiplexing, which its authors call deprecated",
			}},
		},
		why: func(v scenario.Variant) string {
			if Multiplexes(v) {
				return "kitex's connection multiplexing carries only unary calls; framing=grpc carries streams"
			}
			return ""
		},
	}}
	// DRPC sends one call at a time on a connection, as its authors intend.
	DRPC = Stack{&description{
		secured: true,
		info: stack.Info{
			Name: "drpc", Summary: "Storj's drpc: protobuf over TCP, one call at a time on a connection",
			Connection: scenario.Connection{Mode: scenario.Shared},
			Options: append([]scenario.Option{{
				Key: PoolKey, Values: []string{"off", "on"}, Default: "off", Role: scenario.ConnectionsRole,
				Help: "on: drpc's own pool, which opens a connection for each call that finds none idle; overrides the connection mode",
			}}, stack.TLSOptions(stack.OptionalTLS)...),
		},
	}}
	// TTRPC is meant for sockets between a machine's own processes. TLS works, since it takes any
	// net.Conn.
	TTRPC = Stack{&description{
		secured: true,
		info: stack.Info{
			Name: "ttrpc", Summary: "containerd's ttrpc: protobuf in small frames over TCP",
			Connection: scenario.Connection{Mode: scenario.Shared}, Options: stack.TLSOptions(stack.OptionalTLS),
		},
	}}
	// RPCX has streams only over a second socket that an application serves by itself.
	RPCX = Stack{&description{
		secured: true,
		info: stack.Info{
			Name: "rpcx", Summary: "rpcx: protobuf in its own frames over TCP",
			Connection: scenario.Connection{Mode: scenario.Shared}, Options: stack.TLSOptions(stack.OptionalTLS),
		},
		why: func(scenario.Variant) string { return "rpcx carries only unary calls on a connection" },
	}}
)

// Multiplexes reports whether a variant of Kitex uses the multiplexed TTHeader frames.
func Multiplexes(v scenario.Variant) bool { framing, _ := v.Get(FramingKey); return framing == mux }

// Pools reports whether a variant of DRPC uses drpc's pool.
func Pools(v scenario.Variant) bool { value, _ := v.Get(PoolKey); return value == "on" }

// Info implements stack.Stack.
func (s Stack) Info() stack.Info { return s.info }

// CarriedBy implements stack.PeerCarried.
func (Stack) CarriedBy() string { return Peer }

// CheckKind implements stack.KindLimiter.
func (s Stack) CheckKind(v scenario.Variant, kind stack.Kind) error {
	if kind == stack.Unary || s.why == nil || s.why(v) == "" {
		return nil
	}
	return fmt.Errorf("%s: %s, no %s: %w", v, s.why(v), kind, stack.ErrUnsupported)
}

// mostPooled is the most connections of drpc's pool. The pool itself has no limit.
const mostPooled = 1 << 16

// ConnectionFor implements stack.ConnectionChooser.
func (s Stack) ConnectionFor(v scenario.Variant) (mode scenario.Connection, fixed bool) {
	if Pools(v) {
		return scenario.Connection{Mode: scenario.Auto, Size: mostPooled}, true
	}
	return s.info.Connection, false
}

// Security checks a variant and returns its TLS options.
func (s Stack) Security(v scenario.Variant) (stack.Security, error) {
	o := stack.ReadOptions(s, v)
	if !s.secured {
		return stack.Security{}, o.Err()
	}
	security := stack.SecurityOf(o)
	return security, o.Err()
}

// NewServer implements stack.Stack. The server checks the variant, and never listens.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	if _, err := s.Security(v); err != nil {
		return nil, err
	}
	return &absentServer{err: s.absent()}, nil
}

// NewClient implements stack.Stack. It always returns an error.
func (s Stack) NewClient(context.Context, scenario.Variant, stack.Target) (stack.Client, error) {
	return nil, s.absent()
}

func (s Stack) absent() error {
	return fmt.Errorf("the stack %s is not in this program, but in the peer %s: build the peer with `wirelab peers build %[2]s`, and use `wirelab run` or `wirelab compare`: %w", s.info.Name, Peer, stack.ErrUnsupported)
}

// absentServer stands for a server of the peer.
type absentServer struct {
	stack.Methods
	err error
}

func (a *absentServer) Listen(context.Context, string) (net.Addr, error) { return nil, a.err }
func (a *absentServer) Serve() error                                     { return a.err }
func (*absentServer) Shutdown(context.Context) error                     { return nil }
func (*absentServer) Close() error                                       { return nil }

var _ grpc.ServiceRegistrar = (*absentServer)(nil)
