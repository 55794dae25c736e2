// Package ttrpcstack is the stack ttrpc: containerd's ttrpc over TCP, with or without TLS, with the
// library's defaults. Its limit for a message is 4 MiB, and no option changes it.
package ttrpcstack

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/containerd/log"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/rivalstack"
	"wirelab.dev/peers/rivals/carry"
)

const name = "ttrpc"

// Stack is ttrpc.
type Stack struct{ rivalstack.Stack }

// New returns the stack. It turns ttrpc's log off, which writes a line for each late answer.
func New() Stack {
	log.L.Logger.SetOutput(io.Discard)
	return Stack{rivalstack.TTRPC}
}

var _ stack.Stack = Stack{}

// NewServer implements stack.Stack.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	security, err := s.Security(v)
	if err != nil {
		return nil, err
	}
	return carry.NewServer(carry.Plan{Name: name, Security: security, Start: start}), nil
}

func start(s *carry.Server) (carry.Library, error) {
	made, err := ttrpc.NewServer()
	if err != nil {
		return nil, err
	}
	services := map[string]*ttrpc.ServiceDesc{}
	for _, m := range s.InOrder() {
		service, operation := carry.Split(m.FullName)
		if services[service] == nil {
			services[service] = &ttrpc.ServiceDesc{Methods: map[string]ttrpc.Method{}, Streams: map[string]ttrpc.Stream{}}
		}
		if m.Unary != nil {
			services[service].Methods[operation] = func(ctx context.Context, decode func(any) error) (any, error) {
				return s.Unary(ctx, m, decode)
			}
			continue
		}
		services[service].Streams[operation] = ttrpc.Stream{
			StreamingClient: m.ClientStreams(), StreamingServer: m.ServerStreams(),
			Handler: func(ctx context.Context, stream ttrpc.StreamServer) (any, error) {
				return serveStream(ctx, s, m, stream)
			},
		}
	}
	for service, desc := range services {
		made.RegisterService(service, desc)
	}
	return &server{server: made, ctx: s.Context()}, nil
}

// serveStream answers a streaming call. Where the server sends one message, ttrpc sends it when the
// handler returns it.
func serveStream(ctx context.Context, s *carry.Server, m *stack.Method, stream ttrpc.StreamServer) (any, error) {
	if m.ServerStreams() {
		return nil, s.Stream(m, &carry.ServerStream{Messages: stream, Ctx: ctx})
	}
	one := &oneAnswer{StreamServer: stream}
	err := s.Stream(m, &carry.ServerStream{Messages: one, Ctx: ctx})
	return one.answer, err
}

type oneAnswer struct {
	ttrpc.StreamServer
	answer any
}

func (o *oneAnswer) SendMsg(m any) error {
	o.answer = m
	return nil
}

type server struct {
	server *ttrpc.Server
	ctx    context.Context //nolint:containedctx // ttrpc.Server.Serve has a context
}

// Serve implements carry.Library.
func (s *server) Serve(l net.Listener) error { return s.server.Serve(s.ctx, l) }

// Stop implements carry.Library.
func (s *server) Stop() { _ = s.server.Close() } // the listener may be closed already

// NewClient implements stack.Stack.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	security, err := s.Security(v)
	if err != nil {
		return nil, err
	}
	return carry.NewClient(ctx, carry.Wire{Stack: s, Variant: v, Security: security, Target: target, Protocol: name, Open: func(raw net.Conn) (carry.Session, error) {
		lost := make(chan struct{})
		return &session{client: ttrpc.NewClient(raw, ttrpc.WithOnClose(sync.OnceFunc(func() { close(lost) }))), lost: lost}, nil
	}})
}

type session struct {
	client *ttrpc.Client
	lost   chan struct{}
}

// Closed implements carry.Session.
func (s *session) Closed() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

// Close implements carry.Session. It waits until the client's goroutine has ended.
func (s *session) Close() error {
	err := s.client.Close()
	return errors.Join(err, s.client.UserOnCloseWait(context.Background()))
}

// Invoke implements carry.Session.
func (s *session) Invoke(ctx context.Context, method string, request, reply any) error {
	service, operation := carry.Split(method)
	return s.client.Call(ctx, service, operation, request, reply)
}

// NewStream implements carry.Session. Where the client sends one message, ttrpc sends it with the
// request, so the stream begins with that message.
func (s *session) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string) (carry.Stream, error) {
	service, operation := carry.Split(method)
	open := func(first any) (ttrpc.ClientStream, error) {
		return s.client.NewStream(ctx, &ttrpc.StreamDesc{StreamingClient: desc.ClientStreams, StreamingServer: desc.ServerStreams}, service, operation, first)
	}
	if !desc.ClientStreams {
		return &lateStream{open: open}, nil
	}
	opened, err := open(nil)
	if err != nil {
		return nil, err
	}
	return stream{opened}, nil
}

type stream struct{ ttrpc.ClientStream }

// End implements carry.Stream.
func (stream) End() error { return nil }

// lateStream opens its stream with the client's only message.
type lateStream struct {
	open   func(any) (ttrpc.ClientStream, error)
	opened ttrpc.ClientStream
}

var errNoMessage = errors.New("ttrpc: receive before the request was sent")

func (l *lateStream) SendMsg(m any) (err error) {
	l.opened, err = l.open(m)
	return err
}

func (l *lateStream) RecvMsg(m any) error {
	if l.opened == nil {
		return errNoMessage
	}
	return l.opened.RecvMsg(m)
}

func (*lateStream) CloseSend() error { return nil }
func (*lateStream) End() error       { return nil }
