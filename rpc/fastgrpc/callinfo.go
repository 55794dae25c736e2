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
	on                  *clientConn // make the call on this connection, without stats and retries
	noRetry             bool        // ignore retry policies
	resolutionDelay     bool        // the call had to wait for the target's addresses
}

// readOptions applies options to a zero callInfo, in order. It ignores options of other packages:
// they are for the program's interceptors.
func (i *callInfo) readOptions(client *clientOptions, lists ...[]grpc.CallOption) error {
	i.MaxReceive, i.MaxSend, i.maxReplay = config.Unset, config.Unset, message.MaxReplay
	for _, list := range lists {
		for _, o := range list {
			if err := i.apply(o); err != nil {
				return err
			}
		}
	}
	return i.chooseCodec(client)
}

// applyConfig applies the service config of the method, which may be nil. It completes a
// callInfo whose options have been read.
func (i *callInfo) applyConfig(client *clientOptions, m *config.Method) {
	i.noRetry = client.disableRetry
	if m != nil {
		if m.WaitForReady != nil && !i.WaitIsSet {
			i.WaitForReady = *m.WaitForReady
		}
		i.MaxReceive = config.Limit(i.MaxReceive, m.MaxResponseMessageBytes)
		i.MaxSend = config.Limit(i.MaxSend, m.MaxRequestMessageBytes)
		i.retry = m.RetryPolicy
	}
	if i.MaxReceive == config.Unset {
		i.MaxReceive = client.maxReceive
	}
	if i.MaxSend == config.Unset {
		i.MaxSend = client.maxSend
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
	default: // also options that a later grpc-go adds
		return status.Errorf(codes.Internal, "fastgrpc: the call option %T is not supported; the package page says what to use", option)
	}
	return nil
}

// chooseCodec uses the forced codec or, if there is none, the subtype's.
func (i *callInfo) chooseCodec(client *clientOptions) error {
	switch {
	case i.codec != nil && i.subtype == "":
		i.subtype = i.codec.Name()
	case i.codec != nil:
	case i.subtype == "":
		i.codec = client.plainCodec
	default:
		if i.codec = client.codecFor(i.subtype); i.codec == nil {
			return status.Errorf(codes.Internal, "fastgrpc: no codec is registered for content-subtype %q: use encoding.RegisterCodecV2", i.subtype)
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
		return status.Errorf(codes.Internal, "fastgrpc: compressor %q is not registered: import its package, for gzip google.golang.org/grpc/encoding/gzip", name)
	}
	return nil
}

// tries counts the attempts of a call and decides, as grpc-go does, whether to make another
// one (gRFC A6): at once if the server did not process the first, otherwise by the service
// config's retry policy.
type tries struct {
	attempts      int  // ended attempts
	retries       int  // made by the policy
	sincePushback int  // retries since the server's last pushback
	transparent   bool // the server did not process the previous attempt
}

// An attemptEnd describes how an attempt failed, which decides whether another one follows.
type attemptEnd struct {
	final       bool // no other attempt: the balancer dropped the call, or too much was sent to repeat it
	unprocessed bool
	answered    bool
	pushback    []string // the server's values
}

// read fills e from the attempt of a stream that has ended.
func (e *attemptEnd) read(u *clientCall) {
	e.unprocessed, e.answered = u.unprocessed, u.answered
	for _, f := range u.trailer {
		if f.Name == wire.FieldPushback {
			e.pushback = append(e.pushback, f.Value)
		}
	}
}

// next returns the pause before the next attempt, or the call's error if there is none.
func (t *tries) next(info *callInfo, e *attemptEnd, err error) (time.Duration, error) {
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
			info.throttle.Failed()
			return 0, err
		}
		pause = time.Duration(ms) * time.Millisecond
	}
	policy := info.retry
	switch {
	case policy == nil || !slices.Contains(policy.RetryableStatusCodes, status.Code(err)) || info.throttle.Failed():
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
