package own

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/workload"
)

type registrar struct{ names []string }

func (r *registrar) RegisterService(desc *grpc.ServiceDesc, _ any) {
	r.names = append(r.names, desc.ServiceName)
}

func TestTheServicesFunctionsAreCalled(t *testing.T) {
	failure := errors.New("sold out")
	w := New(Service{
		Register: func(r grpc.ServiceRegistrar) {
			r.RegisterService(&grpc.ServiceDesc{ServiceName: "shop"}, nil)
		},
		Call: func(context.Context, grpc.ClientConnInterface) error { return failure },
	})
	var server registrar
	w.Register(&server, workload.Parameters{})
	if len(server.names) != 1 || server.names[0] != "shop" {
		t.Errorf("registered %q, want shop", server.names)
	}
	if err := w.NewCaller(nil, workload.Job{}).Call(t.Context()); !errors.Is(err, failure) {
		t.Errorf("the call returned %v", err)
	}
	if err := w.Check(workload.Parameters{RequestBytes: 64}); err == nil {
		t.Error("a size was accepted, although the service's code decides about its messages")
	}
}

func TestAProgramWithoutAServiceSaysSo(t *testing.T) {
	var server registrar
	Workload{}.Register(&server, workload.Parameters{})
	if len(server.names) != 1 || server.names[0] != ErrNotHere.Error() {
		t.Errorf("registered %q", server.names)
	}
	err := Workload{}.NewCaller(nil, workload.Job{}).Call(t.Context())
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("the call returned %v", err)
	}
}
