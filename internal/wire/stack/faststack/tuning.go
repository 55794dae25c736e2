package faststack

import (
	"fmt"
	"strconv"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/fastgrpc"
)

// The library writes and reads past what has only the first bytes to see.
var _ fastgrpc.Transparent = (*conn.CleartextConn)(nil)

// Settings lists what is not the libraries' default: fastgrpc's, and grpc-go's
// where it is the other end.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	all, err := s.own.Settings(v, t)
	if err != nil || has(serverOnly, v) && has(clientOnly, v) {
		return all, err
	}
	tuned, ok := s.other.(stack.SettingsReporter)
	if !ok {
		return nil, fmt.Errorf("the stack %s does not tell its settings", s.other.Info().Name)
	}
	others, err := tuned.Settings(s.others(v), t)
	if err != nil {
		return nil, err
	}
	if has(clientOnly, v) {
		return append(tuning.At(tuning.Server, others), tuning.At(tuning.Client, all)...), nil
	}
	return append(tuning.At(tuning.Server, all), tuning.At(tuning.Client, others)...), nil
}

type (
	serverOption = tuning.Option[fastgrpc.ServerOption]
	clientOption = tuning.Option[fastgrpc.ClientOption]
)

// tuned lists what is not fastgrpc's default at both ends, with the options that make
// it so.
func tuned(o *scenario.Options) (ends tuning.Ends[fastgrpc.ServerOption, fastgrpc.ClientOption]) {
	limit := func(library string, server serverOption, name string, client grpc.CallOption) {
		ends.Add(tuning.Setting{Value: strconv.Itoa(stack.MaxMessageBytes), Default: library, Why: "one message limit for all stacks"},
			server, clientOption{Name: name, Apply: fastgrpc.WithDefaultCallOptions(client)})
	}
	limit("4194304", serverOption{Name: "fastgrpc.MaxRecvMsgSize", Apply: fastgrpc.MaxRecvMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallRecvMsgSize", grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes))
	limit("2147483647", serverOption{Name: "fastgrpc.MaxSendMsgSize", Apply: fastgrpc.MaxSendMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallSendMsgSize", grpc.MaxCallSendMsgSize(stack.MaxMessageBytes))
	if o.Text(codecKey) == codecVT {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: "the variant's option codec"},
			serverOption{Name: "fastgrpc.VTProto", Apply: fastgrpc.VTProto()},
			clientOption{Name: "fastgrpc.WithVTProto", Apply: fastgrpc.WithVTProto()})
	}
	if o.On(aliasKey) {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: "the variant's option alias"},
			serverOption{Name: "fastgrpc.AliasRequests", Apply: fastgrpc.AliasRequests()},
			clientOption{Name: "fastgrpc.WithAliasedResponses", Apply: fastgrpc.WithAliasedResponses()})
	}
	return ends
}
