package fastgrpc

import (
	"context"
	"errors"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/config"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// callInfo holds the call options of one call.
type callInfo struct {
	rpccall.CallOptions // message limits are unset until the service config is read
	maxReplay           int
	alias               bool
	codec               message.Codec
	subtype             string
	authority           string
	compressor          encoding.Compressor
	creds               credentials.PerRPCCredentials
	retry               *config.RetryPolicy
	throttle            *config.Throttle
	on                  *subConn // make the call there, without stats and retries
	resolutionDelay     bool     // the call had to wait for the target's addresses
}

// readOptions applies options to a zero callInfo, in order. It ignores those that are
// not grpc-go's: they are for the program's interceptors.
func (i *callInfo) readOptions(c *Client, lists ...[]grpc.CallOption) error {
	i.MaxReceive, i.MaxSend, i.maxReplay = config.Unset, config.Unset, message.MaxReplay
	for _, list := range lists {
		for _, o := range list {
			if err := i.apply(o); err != nil {
				return err
			}
		}
	}
	return i.chooseCodec(c)
}

// applyConfig applies the service config of the method, which may be nil. It completes a
// callInfo whose options have been read.
func (i *callInfo) applyConfig(c *Client, m *config.Method) {
	if m != nil {
		if m.WaitForReady != nil && !i.WaitIsSet {
			i.WaitForReady = *m.WaitForReady
		}
		i.MaxReceive = config.Limit(i.MaxReceive, m.MaxResponseMessageBytes)
		i.MaxSend = config.Limit(i.MaxSend, m.MaxRequestMessageBytes)
		i.retry = m.RetryPolicy
	}
	if i.MaxReceive == config.Unset {
		i.MaxReceive = c.opts.maxReceive
	}
	if i.MaxSend == config.Unset {
		i.MaxSend = c.opts.maxSend
	}
}

func (i *callInfo) apply(option grpc.CallOption) error {
	if i.CallOptions.Apply(option) {
		return nil
	}
	switch o := option.(type) {
	case grpc.PerRPCCredsCallOption:
		i.creds = o.Creds
	case grpc.MaxRetryRPCBufferSizeCallOption:
		i.maxReplay = o.MaxRetryRPCBufferSize
	case grpc.AuthorityOverrideCallOption:
		i.authority = o.Authority
	case grpc.CompressorCallOption:
		return i.setCompressor(o.CompressorType)
	case grpc.ContentSubtypeCallOption:
		i.subtype = o.ContentSubtype
	case grpc.ForceCodecCallOption:
		i.codec = message.CodecV1{Codec: o.Codec}
	case grpc.ForceCodecV2CallOption:
		i.codec = message.CodecV2{CodecV2: o.CodecV2}
	default: // also those that a later grpc-go adds
		return status.Errorf(codes.Internal, "fastgrpc: the call option %T is not supported; the package page says what to use", option)
	}
	return nil
}

// chooseCodec takes the forced codec or, if there is none, the one for the subtype.
func (i *callInfo) chooseCodec(c *Client) error {
	switch {
	case i.codec != nil && i.subtype == "":
		i.subtype = i.codec.Name()
	case i.codec != nil:
	case i.subtype == "":
		i.codec = c.codec
	default:
		if i.codec = c.opts.codecFor(i.subtype); i.codec == nil {
			return status.Errorf(codes.Internal, "fastgrpc: no codec is registered for content-subtype %q: use encoding.RegisterCodecV2", i.subtype)
		}
	}
	return nil
}

// responded passes a response's peer, header and trailer to the call's options and to the
// stats handler.
func (i *callInfo) responded(c *clientCall) {
	if i.Peer != nil {
		*i.Peer = *c.conn.peer
	}
	if i.Header != nil {
		*i.Header = toMetadata(c.header)
	}
	if i.Trailer != nil {
		*i.Trailer = toMetadata(c.trailer)
	}
	c.reportTrailer()
}

// reportTrailer reports a response's trailer to the stats handler, once.
func (c *clientCall) reportTrailer() {
	if o := c.observer; o != nil && !o.ended.Load() {
		o.headerReceived(c)
		o.report(&stats.InTrailer{Client: true, WireLength: c.trailerLength, Trailer: toMetadata(c.trailer)})
	}
}

func (i *callInfo) setCompressor(name string) error {
	if name == "" || name == encoding.Identity {
		i.compressor = nil
		return nil
	}
	if i.compressor = encoding.GetCompressor(name); i.compressor == nil {
		return status.Errorf(codes.Internal, "fastgrpc: compressor %q is not registered: import its package, for gzip google.golang.org/grpc/encoding/gzip", name)
	}
	return nil
}

// appendCredentials adds the header fields of the client's and the call's credentials.
func (cc *clientConn) appendCredentials(ctx context.Context, fields []hpack.HeaderField, authority, method string, forCall credentials.PerRPCCredentials) ([]hpack.HeaderField, error) {
	auth := cc.peer.AuthInfo
	ctx = credentials.NewContextWithRequestInfo(ctx, credentials.RequestInfo{Method: method, AuthInfo: auth})
	uri := rpccall.Audience(authority, method)
	var err error
	for _, creds := range cc.client.opts.perRPC {
		if fields, err = appendCredential(ctx, fields, creds, uri, codes.Unauthenticated); err != nil {
			return nil, err
		}
	}
	if forCall == nil {
		return fields, nil
	}
	if forCall.RequireTransportSecurity() && credentials.CheckSecurityLevel(auth, credentials.PrivacyAndIntegrity) != nil {
		return nil, status.Error(codes.Unauthenticated, "fastgrpc: the call's credentials need a secure connection, and this one is not")
	}
	return appendCredential(ctx, fields, forCall, uri, codes.Internal)
}

// appendCredential adds the header fields of one credential. It uses code for errors without
// a status.
func appendCredential(ctx context.Context, fields []hpack.HeaderField, creds credentials.PerRPCCredentials, uri string, code codes.Code) ([]hpack.HeaderField, error) {
	md, err := rpccall.CredentialMetadata(ctx, creds, uri, code)
	if err != nil {
		return nil, err
	}
	if err := wire.CheckMetadata(md); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return wire.AppendMetadata(fields, md), nil
}

// checkCallCredentials returns an error if the client's credentials must not be sent on a
// connection.
func checkCallCredentials(all []credentials.PerRPCCredentials, auth credentials.AuthInfo) error {
	for _, creds := range all {
		if creds.RequireTransportSecurity() && credentials.CheckSecurityLevel(auth, credentials.PrivacyAndIntegrity) != nil {
			return errors.New("the client's call credentials need a secure connection, and this one is not")
		}
	}
	return nil
}
