package rpccall

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// ChainUnaryServer combines two interceptors into one. outer may be nil.
func ChainUnaryServer(outer, inner grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if outer == nil {
		return inner
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, h)
		})
	}
}

// ChainStreamServer combines two interceptors into one. outer may be nil.
func ChainStreamServer(outer, inner grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if outer == nil {
		return inner
	}
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		return outer(srv, ss, info, func(srv any, ss grpc.ServerStream) error {
			return inner(srv, ss, info, h)
		})
	}
}

// ChainUnaryClient returns an invoker that calls the interceptors, the first outermost,
// and then last. It returns nil if there are no interceptors.
func ChainUnaryClient(in []grpc.UnaryClientInterceptor, last grpc.UnaryInvoker) (chain grpc.UnaryInvoker) {
	for _, outer := range slices.Backward(in) {
		inner := last
		chain = func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
			return outer(ctx, method, req, reply, cc, inner, opts...)
		}
		last = chain
	}
	return chain
}

// ChainStreamClient does the same for streams.
func ChainStreamClient(in []grpc.StreamClientInterceptor, last grpc.Streamer) (chain grpc.Streamer) {
	for _, outer := range slices.Backward(in) {
		inner := last
		chain = func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return outer(ctx, desc, cc, method, inner, opts...)
		}
		last = chain
	}
	return chain
}
