// Package rpcxstack is the stack rpcx: rpcx over TCP, with or without TLS, with protobuf messages
// and rpcx's function handlers. The server's gateways for HTTP and JSON-RPC are off, since they
// look at the first bytes of each connection.
package rpcxstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/log"
	"github.com/smallnest/rpcx/protocol"
	"github.com/smallnest/rpcx/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/rivalstack"
	"wirelab.dev/peers/rivals/carry"
)

const name = "rpcx"

// Stack is rpcx.
type Stack struct{ rivalstack.Stack }

// New returns the stack. It turns rpcx's log off, which writes a line for each closed connection.
func New() Stack {
	quiet()
	return Stack{rivalstack.RPCX}
}

// quiet changes variables of rpcx, once: its log, the way to hand it a connection, and its message
// limit.
var quiet = sync.OnceFunc(func() {
	log.SetDummyLogger()
	client.ConnFactories[ownNetwork] = takeConn
	protocol.MaxMessageLength = stack.MaxMessageBytes + headerBytes
})

// headerBytes is more than rpcx adds to a message in this program.
const headerBytes = 1 << 10

var _ stack.Stack = Stack{}

// Settings implements stack.SettingsReporter.
func (Stack) Settings(scenario.Variant, stack.Target) ([]tuning.Setting, error) {
	off := "only rpcx's own protocol is measured"
	return append([]tuning.Setting{
		{Side: tuning.Server, Name: "rpcx Server.DisableHTTPGateway", Value: "true", Default: "false", Why: off},
		{Side: tuning.Server, Name: "rpcx Server.DisableJSONRPC", Value: "true", Default: "false", Why: off},
		{Side: tuning.Client, Name: "rpcx Option.SerializeType", Value: "ProtoBuffer", Default: "MsgPack", Why: "the services have protobuf messages"},
	}, tuning.Setting{
		Side: tuning.Both, Name: "rpcx protocol.MaxMessageLength", Value: strconv.Itoa(protocol.MaxMessageLength), Default: "no limit", Why: stack.MessageLimitReason,
	}), nil
}

// NewServer implements stack.Stack.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	security, err := s.Security(v)
	if err != nil {
		return nil, err
	}
	return carry.NewServer(carry.Plan{Name: name, Security: security, Start: start}), nil
}

func start(s *carry.Server) (carry.Library, error) {
	made := server.NewServer()
	made.DisableHTTPGateway, made.DisableJSONRPC = true, true
	made.HandleServiceError = func(error) {} // the caller gets the error
	for _, m := range s.InOrder() {
		if m.Unary == nil {
			continue // rpcx answers that it does not know the method
		}
		service, operation := carry.Split(m.FullName)
		made.AddHandler(service, operation, func(call *server.Context) error {
			answer, err := s.Unary(s.Context(), m, call.Bind)
			if err != nil {
				return errors.New(status.Convert(err).Message())
			}
			return call.Write(answer)
		})
	}
	return &library{made}, nil
}

type library struct{ server *server.Server }

// Serve implements carry.Library.
func (l *library) Serve(on net.Listener) error { return l.server.ServeListener("tcp", on) }

// Stop implements carry.Library.
func (l *library) Stop() { _ = l.server.Close() } // the listener may be closed already

// NewClient implements stack.Stack.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	security, err := s.Security(v)
	if err != nil {
		return nil, err
	}
	return carry.NewClient(ctx, carry.Wire{Stack: s, Variant: v, Security: security, Target: target, Protocol: name, Open: open})
}

// ownNetwork is the name of a network for which rpcx asks takeConn for a connection. The address is
// a number that handed knows.
const ownNetwork = "wirelab"

var (
	handed sync.Map // open connections, by number
	number atomic.Int64
)

func takeConn(_ *client.Client, _, address string) (net.Conn, error) {
	raw, found := handed.LoadAndDelete(address)
	if !found {
		return nil, fmt.Errorf("rpcx: no connection has the number %s", address)
	}
	return raw.(net.Conn), nil
}

func open(raw net.Conn) (carry.Session, error) {
	option := client.DefaultOption
	option.SerializeType = protocol.ProtoBuffer
	watched := &closeWatch{Conn: raw}
	s := &session{client: client.NewClient(option), conn: watched}
	address := strconv.FormatInt(number.Add(1), 10)
	handed.Store(address, watched)
	return s, s.client.Connect(ownNetwork, address)
}

// closeWatch notes when rpcx closes its connection, which it does as soon as the connection fails.
type closeWatch struct {
	net.Conn
	closed atomic.Bool
}

func (c *closeWatch) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

type session struct {
	client *client.Client
	conn   *closeWatch
}

// Closed implements carry.Session.
func (s *session) Closed() bool { return s.conn.closed.Load() }

// Close implements carry.Session.
func (s *session) Close() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, client.ErrShutdown) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Invoke implements carry.Session.
func (s *session) Invoke(ctx context.Context, method string, request, reply any) error {
	service, operation := carry.Split(method)
	err := s.client.Call(ctx, service, operation, request, reply)
	if told, is := errors.AsType[client.ServiceError](err); is && told.IsServiceError() {
		code := codes.Unknown
		if strings.HasPrefix(told.Error(), "rpcx: can't find ") {
			code = codes.Unimplemented
		}
		return status.Error(code, told.Error())
	}
	return err
}

// NewStream implements carry.Session.
func (s *session) NewStream(context.Context, *grpc.StreamDesc, string) (carry.Stream, error) {
	return nil, status.Error(codes.Unimplemented, "rpcx carries only unary calls on a connection")
}
