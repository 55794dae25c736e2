package body

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/workload"
)

type registered struct{ desc *grpc.ServiceDesc }

func (r *registered) RegisterService(desc *grpc.ServiceDesc, _ any) { r.desc = desc }

type countingCaller struct {
	workload.Caller
	calls *int
}

func (c countingCaller) Call(context.Context) error { *c.calls++; return nil }
func (c countingCaller) Check() error               { *c.calls++; return nil }

type emptyStream struct{ grpc.ServerStream }

func (emptyStream) RecvMsg(any) error { return nil }

// Each handler, each message of a stream and each call of a client takes at least the extra time,
// and does what it did before.
func TestBusyEndsTakeTheirTime(t *testing.T) {
	const extra = 5 * time.Millisecond
	handled, calls := 0, 0
	desc := &grpc.ServiceDesc{
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			handled++
			return nil, decode(nil)
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", Handler: func(_ any, stream grpc.ServerStream) error {
			handled++
			return stream.RecvMsg(nil)
		}}},
	}
	var to registered
	busyRegistrar{&to, extra}.RegisterService(desc, nil)
	caller := busyCaller{countingCaller{calls: &calls}, extra}
	for name, run := range map[string]func() error{
		"a handler": func() error {
			_, err := to.desc.Methods[0].Handler(nil, t.Context(), func(any) error { return nil }, nil)
			return err
		},
		"a stream": func() error { return to.desc.Streams[0].Handler(nil, emptyStream{}) },
		"a call":   func() error { return caller.Call(t.Context()) },
	} {
		began := time.Now()
		if err := run(); err != nil || time.Since(began) < extra {
			t.Errorf("%s: %v after %v, want at least %v", name, err, time.Since(began), extra)
		}
	}
	if err := caller.Check(); err != nil || handled != 2 || calls != 2 {
		t.Errorf("%v; %d handlers ran, want 2; %d calls and checks, want 2", err, handled, calls)
	}
}
