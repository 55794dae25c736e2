package faststack

import (
	"fmt"

	"google.golang.org/grpc"

	"wirelab.dev/fastgrpc"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// What the settings have in common.
const (
	oneLimit  = "one message limit for all stacks"
	whyAlias  = "the variant's option alias"
	plainWhy  = "the codec of grpc; codec=vt is the library's default"
	vtDefault = "vtprotobuf's methods, where messages have them"
)

// Settings lists what is not the libraries' default: fastgrpc's, and grpc-go's
// where it is the other end.
func (s Stack) Settings(v scenario.Variant, t stack.Target) ([]tuning.Setting, error) {
	own, err := s.read(v)
	if err != nil {
		return nil, err
	}
	server, client := own.serverTuning().Settings(), own.clientTuning().Settings()
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

// serverTuning lists what is not fastgrpc's default in a server, with the options
// that make it so.
func (s settings) serverTuning() tuning.List[fastgrpc.ServerOption] {
	var all tuning.List[fastgrpc.ServerOption]
	add := func(name string, value any, library, why string, apply fastgrpc.ServerOption) {
		all.Add(tuning.Setting{Side: tuning.Server, Name: "fastgrpc." + name, Value: fmt.Sprint(value), Default: library, Why: why}, apply)
	}
	add("MaxRecvMsgSize", stack.MaxMessageBytes, "4194304", oneLimit, fastgrpc.MaxRecvMsgSize(stack.MaxMessageBytes))
	add("MaxSendMsgSize", stack.MaxMessageBytes, "2147483647", oneLimit, fastgrpc.MaxSendMsgSize(stack.MaxMessageBytes))
	if s.codec != codecVT {
		add("PlainProto", "set", vtDefault, plainWhy, fastgrpc.PlainProto())
	}
	if s.alias {
		add("AliasRequests", "set", "off", whyAlias, fastgrpc.AliasRequests())
	}
	return all
}

// clientTuning is the same of a client.
func (s settings) clientTuning() tuning.List[fastgrpc.ClientOption] {
	var all tuning.List[fastgrpc.ClientOption]
	add := func(name string, value any, library, why string, apply fastgrpc.ClientOption) {
		all.Add(tuning.Setting{Side: tuning.Client, Name: name, Value: fmt.Sprint(value), Default: library, Why: why}, apply)
	}
	call := func(name string, library string, apply grpc.CallOption) {
		add("grpc."+name, stack.MaxMessageBytes, library, oneLimit, fastgrpc.WithDefaultCallOptions(apply))
	}
	call("MaxCallRecvMsgSize", "4194304", grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes))
	call("MaxCallSendMsgSize", "2147483647", grpc.MaxCallSendMsgSize(stack.MaxMessageBytes))
	if s.codec != codecVT {
		add("fastgrpc.WithPlainProto", "set", vtDefault, plainWhy, fastgrpc.WithPlainProto())
	}
	if s.alias {
		add("fastgrpc.WithAliasedResponses", "set", "off", whyAlias, fastgrpc.WithAliasedResponses())
	}
	return all
}
