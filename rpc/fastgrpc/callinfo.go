package fastgrpc

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/config"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// callInfo holds the call options of one call.
type callInfo struct {
	rpccall.CallOptions // message limits are UnsetLimit until applyConfig sets them
	maxReplay           int
	alias               bool
	codec               message.Codec
	subtype             string
	authority           string
	compressor          encoding.Compressor
	creds               credentials.PerRPCCredentials
	retry               *config.RetryPolicy
	throttle            *config.Throttle
	on                  *clientConn // if set, the call uses this connection, without stats and retries
	noRetry             bool        // the call ignores retry policies
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

// applyConfig applies the method's service config, which may be nil. Call readOptions first.
func (i *callInfo) applyConfig(client *clientOptions, m *config.MethodConfig) {
	i.noRetry = client.disableRetry
	if m != nil {
		if m.WaitForReady != nil && !i.WaitIsSet {
			i.WaitForReady = *m.WaitForReady
		}
		i.MaxReceive = config.LesserLimit(i.MaxReceive, m.MaxResponseMessageBytes)
		i.MaxSend = config.LesserLimit(i.MaxSend, m.MaxRequestMessageBytes)
		i.retry = m.RetryPolicy
	}
	if i.MaxReceive == config.UnsetLimit {
		i.MaxReceive = client.maxReceive
	}
	if i.MaxSend == config.UnsetLimit {
		i.MaxSend = client.maxSend
	}
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
	case i.codec != nil && i.subtype == "":
		i.subtype = i.codec.Name()
	case i.codec != nil:
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

// retryState counts the attempts of a call and decides whether another attempt follows, as in
// grpc-go (gRFC A6). If the server did not process the first attempt, the next one follows at once.
// Otherwise the service config's retry policy decides.
type retryState struct {
	attempts      int  // attempts that have ended
	retries       int  // attempts that the retry policy caused
	sincePushback int  // retries since the server last set the pause
	transparent   bool // the server did not process the previous attempt
}

// An attemptFailure describes how an attempt failed. pauseBeforeNext reads it.
type attemptFailure struct {
	final       bool     // no attempt may follow: the balancer ended the call, or messages were not kept
	unprocessed bool     // the server did not process the attempt
	answered    bool     // the server sent a response header
	pushback    []string // values of the field grpc-retry-pushback-ms
}

// setFrom fills in e from an attempt that has ended.
func (e *attemptFailure) setFrom(u *clientCall) {
	e.unprocessed, e.answered = u.unprocessed, u.answered
	for _, f := range u.trailer {
		if f.Name == wire.FieldPushback {
			e.pushback = append(e.pushback, f.Value)
		}
	}
}

// pauseBeforeNext returns the pause before the next attempt, or err if no attempt follows.
func (t *retryState) pauseBeforeNext(info *callInfo, e *attemptFailure, err error) (time.Duration, error) {
	t.attempts++
	t.transparent = false
	switch {
	case e.final || info.on != nil:
		return 0, err
	case e.unprocessed && t.attempts == 1:
		t.transparent = true
		return 0, nil
	case info.noRetry || e.answered || info.retry == nil && e.pushback == nil:
		return 0, err
	}
	pause := time.Duration(-1)
	if len(e.pushback) > 0 {
		ms, bad := strconv.Atoi(e.pushback[0])
		if bad != nil || ms < 0 || len(e.pushback) > 1 {
			info.throttle.CallFailed()
			return 0, err
		}
		pause = time.Duration(ms) * time.Millisecond
	}
	policy := info.retry
	switch {
	case policy == nil || !slices.Contains(policy.RetryableStatusCodes, status.Code(err)) || info.throttle.CallFailed():
		return 0, err
	case t.retries+1 >= policy.MaxAttempts:
		return 0, fmt.Errorf("max retries exhausted: failed after %d attempts: %w", t.retries+1, err)
	case pause >= 0:
		t.sincePushback = 0
	default:
		pause = policy.Backoff(t.sincePushback)
		t.sincePushback++
	}
	t.retries++
	return pause, nil
}
