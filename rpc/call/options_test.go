package rpccall

import (
	"context"
	"testing"

	"google.golang.org/grpc"
)

// TestChainOrder checks that the first interceptor is the outermost, of each kind.
func TestChainOrder(t *testing.T) {
	var got string
	unary := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			got += name
			return h(ctx, req)
		}
	}
	stream := func(name string) grpc.StreamServerInterceptor {
		return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			got += name
			return h(srv, ss)
		}
	}
	call := func(name string) grpc.UnaryClientInterceptor {
		return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			got += name
			return next(ctx, method, req, reply, cc, opts...)
		}
	}
	open := func(name string) grpc.StreamClientInterceptor {
		return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			got += name
			return next(ctx, desc, cc, method, opts...)
		}
	}
	ctx := t.Context()
	for kind, run := range map[string]func(){
		"unary server": func() {
			chain := ChainUnaryServer(ChainUnaryServer(ChainUnaryServer(nil, unary("a")), unary("b")), unary("c"))
			_, _ = chain(ctx, nil, nil, func(context.Context, any) (any, error) { got += "!"; return nil, nil })
		},
		"stream server": func() {
			chain := ChainStreamServer(ChainStreamServer(ChainStreamServer(nil, stream("a")), stream("b")), stream("c"))
			_ = chain(nil, nil, nil, func(any, grpc.ServerStream) error { got += "!"; return nil })
		},
		"unary client": func() {
			chain := ChainUnaryClient([]grpc.UnaryClientInterceptor{call("a"), call("b"), call("c")}, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				got += "!"
				return nil
			})
			_ = chain(ctx, "", nil, nil, nil)
		},
		"stream client": func() {
			chain := ChainStreamClient([]grpc.StreamClientInterceptor{open("a"), open("b"), open("c")}, func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				got += "!"
				return nil, nil
			})
			_, _ = chain(ctx, nil, nil, "")
		},
	} {
		got = ""
		run()
		if got != "abc!" {
			t.Errorf("%s: ran %q, want abc!", kind, got)
		}
	}
}
