package faststack

import (
	"fmt"
	"strconv"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/fastgrpc"
)

// Settings lists what is not the libraries' default: fastgrpc's, and grpc-go's
// where it is the other end.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	own, err := s.read(v)
	if err != nil {
		return nil, err
	}
	ends := own.tuning()
	server, client := ends.Server.Settings(), ends.Client.Settings()
	if own.security.On {
		server = append(server, stack.HandshakeSetting("fastgrpc.HandshakeTimeout", "20s"))
	}
	if own.ends == both {
		return append(server, client...), nil
	}
	tuned, ok := s.Other.(stack.SettingsReporter)
	if !ok {
		return nil, fmt.Errorf("the stack %s does not tell its settings", s.Other.Info().Name)
	}
	others, err := tuned.Settings(s.others(v), t)
	if err != nil {
		return nil, err
	}
	if own.ends == clientOnly {
		return append(tuning.At(tuning.Server, others), client...), nil
	}
	return append(server, tuning.At(tuning.Client, others)...), nil
}

type (
	serverOption = tuning.Option[fastgrpc.ServerOption]
	clientOption = tuning.Option[fastgrpc.ClientOption]
)

// tuning lists what is not fastgrpc's default at both ends, with the options that make
// it so.
func (s settings) tuning() (ends tuning.Ends[fastgrpc.ServerOption, fastgrpc.ClientOption]) {
	limit := func(library string, server serverOption, name string, client grpc.CallOption) {
		ends.Add(tuning.Setting{Value: strconv.Itoa(stack.MaxMessageBytes), Default: library, Why: "one message limit for all stacks"},
			server, clientOption{Name: name, Apply: fastgrpc.WithDefaultCallOptions(client)})
	}
	limit("4194304", serverOption{Name: "fastgrpc.MaxRecvMsgSize", Apply: fastgrpc.MaxRecvMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallRecvMsgSize", grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes))
	limit("2147483647", serverOption{Name: "fastgrpc.MaxSendMsgSize", Apply: fastgrpc.MaxSendMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallSendMsgSize", grpc.MaxCallSendMsgSize(stack.MaxMessageBytes))
	if s.codec == codecVT {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: "the variant's option codec"},
			serverOption{Name: "fastgrpc.VTProto", Apply: fastgrpc.VTProto()},
			clientOption{Name: "fastgrpc.WithVTProto", Apply: fastgrpc.WithVTProto()})
	}
	if s.alias {
		ends.Add(tuning.Setting{Value: "set", Default: "off", Why: "the variant's option alias"},
			serverOption{Name: "fastgrpc.AliasRequests", Apply: fastgrpc.AliasRequests()},
			clientOption{Name: "fastgrpc.WithAliasedResponses", Apply: fastgrpc.WithAliasedResponses()})
	}
	return ends
}
