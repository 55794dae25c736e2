// Package tcp carries calls in length-prefixed protobuf over TCP connections, with or without TLS.
// It adds fewer bytes to the messages than any other stack, so it is the baseline.
//
// There are two framings (docs/wire-tcp.md). In the plain framing, the request and the answer are
// each a length and a message. This framing carries only unary calls, and only to a server with
// exactly one operation. The calls framing adds the operation's name, the deadline, metadata and
// streams. The first four bytes of each call select the framing, so every connection can carry
// both, one call at a time.
//
//  1. wire.go turns messages into bytes.
//  2. frames.go reads as many bytes from a connection as the parser wants, and the parser
//     turns them into events. Like wire.go the parser uses no socket.
//  3. client*.go and server*.go are the two ends: they send frames and act on events.
//
// This package must not know what the messages mean, nor when they are sent.
package tcp

import (
	"context"
	"fmt"
	"strconv"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
)

// Stack is the stack `tcp`. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack            = Stack{}
	_ stack.KindLimiter      = Stack{}
	_ stack.SettingsReporter = Stack{}
)

// Info describes the stack. Its connection mode is the same as in the published kernel study.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: name, Summary: "4-byte length and protobuf message over TCP, one call at a time per connection",
		Options: append([]scenario.Option{
			{
				Key: buffersKey, Values: []string{buffersFresh, buffersPooled, buffersPooledClient, buffersPooledServer}, Default: buffersFresh,
				Help: "memory of frames: allocated for each frame, or reused by the connection, at one end or both",
			},
			{
				Key: gateKey, Parse: scenario.Count,
				Help: "N: the limit of calls in progress at the server, from a frame's first byte to its answer's last; further calls wait in their sockets, first come, first served",
			},
			{
				Key: framingKey, Values: []string{framingAuto, framingPlain, framingCalls}, Default: framingAuto,
				Help: "the client's framing: plain if the call allows it, always plain, or always calls (docs/wire-tcp.md)",
			},
		}, stack.TLSOptions(stack.OptionalTLS)...),
		Connection: scenario.Connection{Mode: scenario.PerWorker}, Protocol: "TCP",
	}
}

// NewServer makes a server. It accepts both framings, whatever the variant says.
func (s Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	set, err := s.settings(v)
	if err != nil {
		return nil, err
	}
	return newServer(set), nil
}

// NewClient makes a client and opens the connections that it keeps.
func (s Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	set, err := s.settings(v)
	if err != nil {
		return nil, err
	}
	connector, err := stack.NewConnector(s, v, set.security, target, "")
	if err != nil {
		return nil, err
	}
	if target.Lifecycle == conn.Kept {
		return (&client{Connector: connector, settings: set}).start(ctx, target.Connections)
	}
	return connector.NewPerCall(ctx, func(ctx context.Context, clock *stack.FirstByte) (stack.Client, error) {
		return (&client{Connector: connector, settings: set, clock: clock}).start(ctx, 1)
	})
}

// CheckKind implements stack.KindLimiter: the plain framing has no streams.
func (Stack) CheckKind(v scenario.Variant, kind stack.Kind) error {
	if framing, _ := v.Get(framingKey); framing == framingPlain && kind != stack.Unary {
		return errPlainLacks("no " + kind.String())
	}
	return nil
}

// Settings implements stack.SettingsReporter. No library is used, so it lists the limits that a
// simple program on package net lacks.
func (s Stack) Settings(v scenario.Variant, _ stack.Target) ([]tuning.Setting, error) {
	set, err := s.settings(v)
	if err != nil {
		return nil, err
	}
	all := append(stack.MessageLimit(stack.MaxMessageBytes),
		tuning.Setting{Side: tuning.Both, Name: "metadata of a call", Value: strconv.Itoa(maxHeadBytes), Default: "no limit", Why: "limits what a client can cost before a handler runs"},
		tuning.Setting{Side: tuning.Both, Name: "unread messages of a stream", Value: strconv.Itoa(streamWindow), Default: "no limit", Why: "a writer waits for its reader, as with flow control on other stacks"},
		tuning.Setting{Side: tuning.Server, Name: "wait in the middle of a frame", Value: fmt.Sprintf("%v to %v", stallInterval, 2*stallInterval), Default: "no limit", Why: "a silent peer must not keep its connection for ever"},
		tuning.Setting{Side: tuning.Server, Name: "bytes per write", Value: strconv.Itoa(writeStepBytes), Default: "no limit", Why: "a slow peer must not look like one that has stopped reading"},
	)
	if set.pooled != "" {
		all = append(all, tuning.Setting{Side: set.pooled, Name: "frame buffers kept by a connection", Value: strconv.Itoa(pooledBuffers), Default: "0", Why: stack.OptionReason(buffersKey)})
	}
	if set.gate > 0 {
		all = append(all, tuning.Setting{Side: tuning.Server, Name: "calls in progress", Value: strconv.Itoa(set.gate), Default: "no limit", Why: stack.OptionReason(gateKey)})
	}
	return all, nil
}

func (s Stack) settings(v scenario.Variant) (settings, error) {
	o := stack.ReadOptions(s, v)
	set := settings{framing: o.Text(framingKey), gate: scenario.Value[int](o, gateKey), security: stack.SecurityOf(o)}
	set.pooled = map[string]string{buffersPooled: tuning.Both, buffersPooledClient: tuning.Client, buffersPooledServer: tuning.Server}[o.Text(buffersKey)]
	return set, o.Err()
}
