package fastgrpc

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// bytesEcho is a service like a generated one, whose messages have one bytes field.
var bytesEcho = grpc.ServiceDesc{
	ServiceName: "test.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		return in, nil
	}}},
}

func callEcho(ctx context.Context, c grpc.ClientConnInterface, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	out := new(wrapperspb.BytesValue)
	err := c.Invoke(ctx, "/test.Echo/Echo", in, out, []grpc.CallOption{grpc.StaticMethod()}...)
	return out, err
}

// TestAllocations pins the allocations of a unary call on both ends together. Client:
// the stub's options, its reply and the reply's bytes. Server: what a handler may keep of the
// call, its decoder, the request and the request's bytes.
func TestAllocations(t *testing.T) {
	most := 9.0
	if message.CheckAliases {
		most += 8 // under the race detector, pools forget a quarter of what they get
	}
	s := NewServer()
	s.RegisterService(&bytesEcho, nil)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	c := dialFast(t, lis.Addr().String())
	in := wrapperspb.Bytes(make([]byte, 64))
	got := testing.AllocsPerRun(2000, func() {
		if _, err := callEcho(context.Background(), c, in); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.1f allocations a call, both ends", got)
	if got > most {
		t.Errorf("%.1f allocations a call, want at most %.0f", got, most)
	}
}
