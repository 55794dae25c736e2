package rpccall

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// CallOptions holds the grpc-go call options that every library understands.
type CallOptions struct {
	WaitForReady        bool
	WaitIsSet           bool // an option sets WaitForReady
	MaxReceive, MaxSend int  // limits of received and sent messages, in bytes
	Header, Trailer     *metadata.MD
	Peer                *peer.Peer
	OnFinish            []func(error)
}

// Apply applies an option. It returns false for an option of grpc-go that it does not know.
func (c *CallOptions) Apply(option grpc.CallOption) bool {
	switch o := option.(type) {
	case grpc.StaticMethodCallOption, grpc.EmptyCallOption:
	case grpc.HeaderCallOption:
		c.Header = o.HeaderAddr
	case grpc.TrailerCallOption:
		c.Trailer = o.TrailerAddr
	case grpc.PeerCallOption:
		c.Peer = o.PeerAddr
	case grpc.FailFastCallOption:
		c.WaitForReady, c.WaitIsSet = !o.FailFast, true
	case grpc.OnFinishCallOption:
		c.OnFinish = append(c.OnFinish, o.OnFinish)
	case grpc.MaxRecvMsgSizeCallOption:
		c.MaxReceive = o.MaxRecvMsgSize
	case grpc.MaxSendMsgSizeCallOption:
		c.MaxSend = o.MaxSendMsgSize
	default:
		// Accept options of the program's own interceptors, but not options of a newer grpc-go.
		return reflect.TypeOf(option).PkgPath() != reflect.TypeFor[grpc.EmptyCallOption]().PkgPath()
	}
	return true
}

// CallOnFinish calls the functions that the OnFinish options set.
func (c *CallOptions) CallOnFinish(err error) {
	for _, f := range c.OnFinish {
		f(err)
	}
}

// CredentialMetadata returns the metadata that creds add to a call for an authority. If creds return
// an error without a status, that error gets the status code. A code that only servers may return
// (gRFC A54) becomes Internal.
func CredentialMetadata(ctx context.Context, creds credentials.PerRPCCredentials, authority string, call credentials.RequestInfo, code codes.Code) (metadata.MD, error) {
	if creds.RequireTransportSecurity() && credentials.CheckSecurityLevel(call.AuthInfo, credentials.PrivacyAndIntegrity) != nil {
		return nil, status.Error(codes.Unauthenticated, "the call's credentials need a secure connection, but this connection is not secure: use TLS credentials")
	}
	service := call.Method
	if i := strings.LastIndexByte(service, '/'); i >= 0 {
		service = service[:i]
	}
	uri := "https://" + strings.TrimSuffix(authority, ":443") + service
	values, err := creds.GetRequestMetadata(credentials.NewContextWithRequestInfo(ctx, call), uri)
	if err != nil {
		if st, ok := status.FromError(err); ok && !IsRestricted(st.Code()) {
			return nil, st.Err()
		} else if ok {
			code = codes.Internal
		}
		return nil, status.Errorf(code, "per-call credentials: %v", err)
	}
	return metadata.New(values), nil
}

// IsRestricted reports whether only servers may return a code (gRFC A54).
func IsRestricted(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.DataLoss:
		return true
	}
	return false
}

// ChainUnaryServer returns an interceptor that calls outer, then inner. outer may be nil.
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

// ChainStreamServer returns an interceptor that calls outer, then inner. outer may be nil.
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

// ChainUnaryClient returns an invoker that calls the interceptors in order, and then last. It
// returns nil if there are no interceptors.
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

// ChainStreamClient does for streams what ChainUnaryClient does for unary calls.
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
