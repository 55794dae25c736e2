package creditrpc

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
)

// callInfo is what a call's options say.
type callInfo struct {
	wait                bool
	header, trailer     *metadata.MD
	peer                *peer.Peer
	maxSend, maxReceive int
	creds               []credentials.PerRPCCredentials
	onFinish            []func(error)
}

// readOptions reads a call's options. Those that are not grpc-go's are for the program's
// interceptors.
func (c *Client) readOptions(opts []grpc.CallOption) (callInfo, error) {
	var unknown error
	info := callInfo{maxSend: c.opts.maxSend, maxReceive: c.opts.maxReceive, creds: c.opts.perRPC}
	for _, option := range opts {
		switch o := option.(type) {
		case grpc.HeaderCallOption:
			info.header = o.HeaderAddr
		case grpc.TrailerCallOption:
			info.trailer = o.TrailerAddr
		case grpc.PeerCallOption:
			info.peer = o.PeerAddr
		case grpc.FailFastCallOption:
			info.wait = !o.FailFast
		case grpc.MaxSendMsgSizeCallOption:
			info.maxSend = o.MaxSendMsgSize
		case grpc.MaxRecvMsgSizeCallOption:
			info.maxReceive = o.MaxRecvMsgSize
		case grpc.PerRPCCredsCallOption:
			info.creds = append(info.creds[:len(info.creds):len(info.creds)], o.Creds)
		case grpc.OnFinishCallOption:
			info.onFinish = append(info.onFinish, o.OnFinish)
		case grpc.StaticMethodCallOption, grpc.EmptyCallOption:
		default:
			if reflect.TypeOf(option).PkgPath() == reflect.TypeFor[grpc.EmptyCallOption]().PkgPath() {
				unknown = status.Errorf(codes.Unimplemented, "creditrpc: the call option %T is not supported; the package page says which are", option)
			}
		}
	}
	return info, unknown
}

func (i *callInfo) finished(err error) {
	for _, f := range i.onFinish {
		f(err)
	}
}

// tell passes what came with an answer to the call's options.
func (i *callInfo) tell(cc *clientConn, call *clientCall) {
	if i.peer != nil {
		*i.peer = *cc.peer
	}
	if i.header != nil {
		*i.header = call.header
	}
	if i.trailer != nil {
		*i.trailer = call.trailer
	}
}

// metadata returns what the call sends: the context's, and that of its credentials.
func (i *callInfo) metadata(ctx context.Context, cc *clientConn, method string) (metadata.MD, error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(i.creds) == 0 {
		return md, nil
	}
	ctx = credentials.NewContextWithRequestInfo(ctx, credentials.RequestInfo{Method: method, AuthInfo: cc.peer.AuthInfo})
	all := []metadata.MD{md}
	for _, creds := range i.creds {
		if creds.RequireTransportSecurity() && credentials.CheckSecurityLevel(cc.peer.AuthInfo, credentials.PrivacyAndIntegrity) != nil {
			return nil, status.Error(codes.Unauthenticated, "creditrpc: the call's credentials need a secure connection, and this one is not")
		}
		more, err := rpccall.CredentialMetadata(ctx, creds, rpccall.Audience(cc.client.address, method), codes.Unauthenticated)
		if err != nil {
			return nil, err
		}
		all = append(all, more)
	}
	return metadata.Join(all...), nil
}
