package fastgrpc

import (
	"context"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// callInfo holds the call options of one call.
type callInfo struct {
	maxReceive, maxSend int
	waitForReady        bool
	alias               bool
	codec               codec
	subtype             string
	authority           string
	compressor          encoding.Compressor
	creds               []credentials.PerRPCCredentials
	header, trailer     *metadata.MD
	peer                *peer.Peer
	onFinish            []func(error)
	observer            *observer
}

// readOptions applies the client's default options and then opts to a zero callInfo. It
// ignores options that are not grpc-go's: those are for the program's interceptors.
func (i *callInfo) readOptions(c *Client, opts []grpc.CallOption) error {
	i.maxReceive, i.maxSend = c.opts.maxReceive, c.opts.maxSend
	i.codec, i.creds = c.codec, c.opts.perRPC
	for _, list := range [][]grpc.CallOption{c.opts.callOptions, opts} {
		for _, o := range list {
			if err := i.apply(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *callInfo) apply(option grpc.CallOption) error {
	switch o := option.(type) {
	case grpc.StaticMethodCallOption:
	case grpc.HeaderCallOption:
		i.header = o.HeaderAddr
	case grpc.TrailerCallOption:
		i.trailer = o.TrailerAddr
	case grpc.PeerCallOption:
		i.peer = o.PeerAddr
	case grpc.FailFastCallOption:
		i.waitForReady = !o.FailFast
	case grpc.OnFinishCallOption:
		i.onFinish = append(i.onFinish, o.OnFinish)
	case grpc.MaxRecvMsgSizeCallOption:
		i.maxReceive = o.MaxRecvMsgSize
	case grpc.MaxSendMsgSizeCallOption:
		i.maxSend = o.MaxSendMsgSize
	case grpc.PerRPCCredsCallOption:
		i.creds = append(i.creds[:len(i.creds):len(i.creds)], o.Creds)
	case grpc.AuthorityOverrideCallOption:
		i.authority = o.Authority
	case grpc.CompressorCallOption:
		return i.setCompressor(o.CompressorType)
	case grpc.ContentSubtypeCallOption:
		return i.setSubtype(o.ContentSubtype)
	case grpc.ForceCodecCallOption:
		i.setCodec(codecV1{o.Codec})
	case grpc.ForceCodecV2CallOption:
		i.setCodec(codecV2{o.CodecV2})
	case grpc.CustomCodecCallOption:
		return status.Error(codes.Internal, "fastgrpc: CallCustomCodec is not supported; use ForceCodec")
	}
	return nil
}

// responded passes what came with a response to the call's options and stats handler.
func (i *callInfo) responded(c *call) {
	if i.peer != nil {
		*i.peer = *c.conn.peer
	}
	if i.header != nil {
		*i.header = toMetadata(c.header)
	}
	if i.trailer != nil {
		*i.trailer = toMetadata(c.trailer)
	}
	if o := i.observer; o != nil {
		o.headerReceived(c)
		o.report(&stats.InTrailer{Client: true, Trailer: toMetadata(c.trailer)})
	}
}

func (i *callInfo) setCodec(c codec) {
	i.codec = c
	if i.subtype == "" {
		i.subtype = c.Name()
	}
}

func (i *callInfo) setSubtype(subtype string) error {
	i.subtype = subtype
	own, _ := i.codec.(protoCodec)
	if i.codec = codecFor(subtype, own.vt); i.codec == nil {
		return status.Errorf(codes.Internal, "fastgrpc: no codec is registered for content-subtype %q: use encoding.RegisterCodecV2", subtype)
	}
	return nil
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

// appendCredentials adds the header fields of the call's credentials. Credentials see
// the connection's security, so this picks a connection. The call may then use another
// one: all connections of a client have the same security.
func (c *Client) appendCredentials(ctx context.Context, fields []hpack.HeaderField, method string, info *callInfo) ([]hpack.HeaderField, error) {
	cc, err := c.pickConn(ctx, info.waitForReady)
	if err != nil {
		return nil, err
	}
	authInfo := cc.peer.AuthInfo
	ctx = credentials.NewContextWithRequestInfo(ctx, credentials.RequestInfo{Method: method, AuthInfo: authInfo})
	service := method
	if i := strings.LastIndexByte(method, '/'); i > 0 {
		service = method[:i]
	}
	uri := "https://" + strings.TrimSuffix(c.authority, ":443") + service
	for i, creds := range info.creds {
		if creds.RequireTransportSecurity() {
			if err := credentials.CheckSecurityLevel(authInfo, credentials.PrivacyAndIntegrity); err != nil {
				return nil, status.Errorf(codes.Unauthenticated, "fastgrpc: per-call credentials: %v", err)
			}
		}
		values, err := creds.GetRequestMetadata(ctx, uri)
		if err != nil {
			code := codes.Internal
			if i < len(c.opts.perRPC) {
				code = codes.Unauthenticated // those of the client, as in grpc-go
			}
			if st, ok := status.FromError(err); ok && st.Code() != codes.OK {
				code = st.Code()
			}
			return nil, status.Errorf(code, "fastgrpc: per-call credentials: %v", err)
		}
		md := metadata.New(values)
		if err := validateMetadata(md); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		fields = appendMetadata(fields, md)
	}
	return fields, nil
}
