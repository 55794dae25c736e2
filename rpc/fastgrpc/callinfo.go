package fastgrpc

import (
	"cmp"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/config"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// callInfo holds the call options of one call.
type callInfo struct {
	rpccall.CallOptions // message limits are UnsetLimit until applyConfig sets them
	maxReplay           int
	alias               *message.AliasedMemory // the memory into which messages may point, or nil
	codec               message.Codec
	subtype             string
	authority           string
	compressor          encoding.Compressor
	creds               credentials.PerRPCCredentials
	retry               *config.RetryPolicy
	throttle            *config.Throttle
	on                  *clientConn // if set, the call uses this connection, without stats and retries
	resolutionDelay     bool        // the call had to wait for the target's addresses
}

// readOptions applies call options in order to a zero callInfo. It ignores options of other
// packages, which are for the program's interceptors.
func (i *callInfo) readOptions(client *clientOptions, lists ...[]grpc.CallOption) error {
	i.MaxReceive, i.MaxSend, i.maxReplay = config.UnsetLimit, config.UnsetLimit, message.MaxReplayBytes
	for _, list := range lists {
		for _, o := range list {
			if err := i.applyOption(o); err != nil {
				return err
			}
		}
	}
	return i.chooseCodec(client)
}

// applyConfig applies the method's service config. Call readOptions first.
func (i *callInfo) applyConfig(client *clientOptions, m *config.MethodConfig) {
	if !client.disableRetry {
		i.retry = m.RetryPolicy
	}
	if m.WaitForReady != nil && !i.WaitIsSet {
		i.WaitForReady = *m.WaitForReady
	}
	i.MaxReceive = config.MessageLimit(i.MaxReceive, m.MaxResponseMessageBytes, client.maxReceive)
	i.MaxSend = config.MessageLimit(i.MaxSend, m.MaxRequestMessageBytes, client.maxSend)
}

func (i *callInfo) applyOption(option grpc.CallOption) error {
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
	default: // for example an option of a newer grpc-go
		return status.Errorf(codes.Internal, "fastgrpc: the call option %T is not supported: the documentation of package fastgrpc lists its replacement", option)
	}
	return nil
}

// chooseCodec sets the codec that an option forces, or else the codec of the content-subtype.
func (i *callInfo) chooseCodec(client *clientOptions) error {
	switch {
	case i.codec != nil:
		i.subtype = cmp.Or(i.subtype, i.codec.Name())
	case i.subtype == "":
		i.codec = client.plainCodec
	default:
		if i.codec = client.codecFor(i.subtype); i.codec == nil {
			return status.Errorf(codes.Internal, "fastgrpc: no codec is registered for the content-subtype %q: register one with encoding.RegisterCodecV2", i.subtype)
		}
	}
	return nil
}

func (i *callInfo) setCompressor(name string) error {
	if name == "" || name == encoding.Identity {
		i.compressor = nil
		return nil
	}
	if i.compressor = encoding.GetCompressor(name); i.compressor == nil {
		return status.Errorf(codes.Internal, "fastgrpc: compressor %q is not registered: import the package that registers it, for example google.golang.org/grpc/encoding/gzip", name)
	}
	return nil
}
