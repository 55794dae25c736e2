package creditrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
)

// callInfo holds the options of one call.
type callInfo struct {
	rpccall.CallOptions
	creds []credentials.PerRPCCredentials
}

// readOptions reads a call's options. Those that are not grpc-go's are for the program's
// interceptors.
func (c *Client) readOptions(opts []grpc.CallOption) (callInfo, error) {
	info := callInfo{creds: c.opts.perRPC}
	info.MaxSend, info.MaxReceive = c.opts.maxSend, c.opts.maxReceive
	var unknown error
	for _, option := range opts {
		if o, ok := option.(grpc.PerRPCCredsCallOption); ok {
			info.creds = append(info.creds[:len(info.creds):len(info.creds)], o.Creds)
		} else if !info.Apply(option) {
			unknown = status.Errorf(codes.Unimplemented, "creditrpc: the call option %T is not supported; the package page says which are", option)
		}
	}
	return info, unknown
}

// responded passes an answer's peer, header and trailer to the call's options.
func (i *callInfo) responded(cc *clientConn, call *clientCall) {
	if i.Peer != nil {
		*i.Peer = *cc.peer
	}
	if i.Header != nil {
		*i.Header = call.header
	}
	if i.Trailer != nil {
		*i.Trailer = call.trailer
	}
}

// metadata returns the metadata that the call sends: the context's and the credentials'.
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
