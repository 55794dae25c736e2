// Package drpcstack is the stack drpc: Storj's drpc, with protobuf messages over TCP, with or
// without TLS. A connection carries one call at a time. Only the message limit differs from the
// library's defaults.
package drpcstack

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcerr"
	"storj.io/drpc/drpcmanager"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcpool"
	"storj.io/drpc/drpcserver"
	"storj.io/drpc/drpcwire"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/rivalstack"
	"wirelab.dev/peers/rivals/carry"
)

const name = "drpc"

// Stack is drpc.
type Stack struct{ rivalstack.Stack }

// New returns the stack.
func New() Stack { return Stack{rivalstack.DRPC} }

var _ stack.Stack = Stack{}

// options returns the options of a connection at either end. The reader's limit counts a whole
// packet, which is a message and a few bytes.
func options() drpcmanager.Options {
	return drpcmanager.Options{Reader: drpcwire.ReaderOptions{MaximumBufferSize: stack.MaxMessageBytes}}
}

// Settings implements stack.SettingsReporter.
func (Stack) Settings(scenario.Variant, stack.Target) ([]tuning.Setting, error) {
	return []tuning.Setting{{
		Side: tuning.Both, Name: "drpcwire.ReaderOptions.MaximumBufferSize", Value: strconv.Itoa(stack.MaxMessageBytes),
		Default: "4194304", Why: stack.MessageLimitReason,
	}}, nil
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
	described := description{server: s}
	for _, m := range s.InOrder() {
		one := method{Method: m, signature: streamSignature}
		if m.Unary != nil {
			request, err := carry.RequestType(m)
			if err != nil {
				return nil, err
			}
			one.signature = unarySignature(reflect.TypeOf(request.Zero().Interface()))
		}
		described.methods = append(described.methods, one)
	}
	mux := drpcmux.New()
	if err := mux.Register(s, described); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.Context())
	return &server{server: drpcserver.NewWithOptions(mux, drpcserver.Options{Manager: options()}), ctx: ctx, cancel: cancel}, nil
}

type server struct {
	server *drpcserver.Server
	ctx    context.Context //nolint:containedctx // it is the library's way to stop
	cancel context.CancelFunc
}

// Serve implements carry.Library.
func (s *server) Serve(l net.Listener) error { return s.server.Serve(s.ctx, l) }

// Stop implements carry.Library.
func (s *server) Stop() { s.cancel() }

// description describes the registered services, as drpc's generated code does.
type description struct {
	server  *carry.Server
	methods []method
}

type method struct {
	*stack.Method
	signature any // a function of the type from which drpcmux reads the kind of call
}

var streamSignature = func(any, drpc.Stream) error { return nil }

func unarySignature(request reflect.Type) any {
	kind := reflect.FuncOf([]reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[context.Context](), request},
		[]reflect.Type{reflect.TypeFor[drpc.Message](), reflect.TypeFor[error]()}, false)
	return reflect.Zero(kind).Interface()
}

// NumMethods implements drpc.Description.
func (d description) NumMethods() int { return len(d.methods) }

// Method implements drpc.Description.
func (d description) Method(n int) (string, drpc.Encoding, drpc.Receiver, any, bool) {
	m := d.methods[n]
	return m.FullName, encoding{}, func(_ any, ctx context.Context, request, second any) (drpc.Message, error) {
		if m.Unary != nil {
			answer, err := d.server.Decoded(ctx, m.Method, request)
			return answer, toldError(err)
		}
		stream := request.(drpc.Stream) // by streamSignature
		return nil, toldError(d.server.Stream(m.Method, &carry.ServerStream{Messages: messages{stream}, Ctx: stream.Context()}))
	}, m.signature, true
}

// toldError gives an error the code that drpc sends.
func toldError(err error) error {
	if err == nil {
		return nil
	}
	told := status.Convert(err)
	return drpcerr.WithCode(errors.New(told.Message()), uint64(told.Code()))
}

// callError returns the status of an error from the server, or err.
func callError(err error) error {
	code := codes.Code(drpcerr.Code(err))
	switch {
	case err == nil:
		return nil
	case code != codes.OK:
		return status.Error(code, err.Error())
	case strings.Contains(err.Error(), "unknown rpc"): // of drpcmux, which has no code
		return status.Error(codes.Unimplemented, err.Error())
	}
	return err
}

type encoding struct{ carry.Encoding }

func (e encoding) Marshal(m drpc.Message) ([]byte, error)      { return e.Encoding.Marshal(m) }
func (e encoding) Unmarshal(from []byte, m drpc.Message) error { return e.Encoding.Unmarshal(from, m) }

func (e encoding) MarshalAppend(to []byte, m drpc.Message) ([]byte, error) {
	return e.Encoding.MarshalAppend(to, m)
}

// messages is a drpc.Stream as a carry.Messages.
type messages struct{ drpc.Stream }

func (m messages) SendMsg(message any) error { return callError(m.MsgSend(message, encoding{})) }
func (m messages) RecvMsg(message any) error { return callError(m.MsgRecv(message, encoding{})) }

// NewClient implements stack.Stack.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	security, err := s.Security(v)
	if err != nil {
		return nil, err
	}
	if rivalstack.Pools(v) && target.Lifecycle == conn.Kept {
		return newPool(ctx, s, v, security, target)
	}
	return carry.NewClient(ctx, carry.Wire{Stack: s, Variant: v, Security: security, Target: target, Protocol: name, Open: func(raw net.Conn) (carry.Session, error) {
		return session{drpcconn.NewWithOptions(raw, drpcconn.Options{Manager: options()})}, nil
	}})
}

// session is a connection, or a pool of connections.
type session struct{ drpc.Conn }

// Closed implements carry.Session.
func (s session) Closed() bool {
	select {
	case <-s.Conn.Closed():
		return true
	default:
		return false
	}
}

// Invoke implements carry.Session.
func (s session) Invoke(ctx context.Context, method string, request, reply any) error {
	return callError(s.Conn.Invoke(ctx, method, encoding{}, request, reply))
}

// NewStream implements carry.Session.
func (s session) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string) (carry.Stream, error) {
	opened, err := s.Conn.NewStream(ctx, method, encoding{})
	if err != nil {
		return nil, err
	}
	return stream{messages{opened}}, nil
}

type stream struct{ messages }

// End implements carry.Stream.
func (s stream) End() error { return s.Close() }

// A pool opens a connection for each call that finds none idle.
type pool struct {
	drpc.Conn
	mu     sync.Mutex
	opened []*drpcconn.Conn // all connections, since drpc's pool knows only those that are idle
}

// Close closes all connections.
func (p *pool) Close() error {
	all := []error{p.Conn.Close()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.opened {
		all = append(all, one.Close())
	}
	return errors.Join(all...)
}

func newPool(ctx context.Context, s Stack, v scenario.Variant, security stack.Security, target stack.Target) (stack.Client, error) {
	connector, err := stack.NewConnector(s, v, security, target, "")
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _ string) (*drpcconn.Conn, error) {
		raw, err := connector.Open(ctx)
		if err != nil {
			return nil, err
		}
		connector.Dialer.UsedProtocol(name)
		return drpcconn.NewWithOptions(raw, drpcconn.Options{Manager: options()}), nil
	}
	return carry.New(ctx, connector, carry.Wire{Stack: s, Variant: v}, nil, func(ctx context.Context) (carry.Session, error) {
		p := &pool{}
		noted := func(ctx context.Context, address string) (*drpcconn.Conn, error) {
			one, err := dial(ctx, address)
			if err == nil {
				p.mu.Lock()
				p.opened = append(p.opened, one)
				p.mu.Unlock()
			}
			return one, err
		}
		first, err := noted(ctx, target.Address)
		if err != nil {
			return nil, err
		}
		idle := drpcpool.New[string, *drpcconn.Conn](drpcpool.Options{})
		idle.Put(target.Address, first)
		p.Conn = idle.Get(ctx, target.Address, noted)
		return session{p}, nil
	})
}
