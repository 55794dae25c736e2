package connectstack

import (
	"bytes"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
)

// envelope carries a unary message through connect-go, which allocates the messages that
// it receives and so needs one concrete type. It holds an outgoing message, or the bytes
// of an incoming one.
type envelope struct {
	message any
	raw     []byte
	form    codec // of raw
}

// open decodes the received bytes.
func (e *envelope) open(message any) error { return e.form.decode(e.raw, message) }

// codec is one of connect-go's codecs that also handles envelopes. It costs one more copy
// of an incoming unary message, because connect-go reuses the buffer that it decodes
// from.
type codec int

// The codecs. wirelab's clients speak the first; curl prefers the second.
const (
	binary codec = iota
	json
)

var _ connect.Codec = binary

// Name returns the name of connect-go's own codec, so that the media types are the same.
func (c codec) Name() string { return [...]string{"proto", "json"}[c] }

// Marshal implements connect.Codec.
func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend marshals into connect-go's own buffer.
func (c codec) MarshalAppend(to []byte, message any) ([]byte, error) {
	if e, wrapped := message.(*envelope); wrapped {
		message = e.message
	}
	m, err := stack.ProtoMessage(name, message)
	switch {
	case err != nil:
		return nil, err
	case c == json:
		return protojson.MarshalOptions{}.MarshalAppend(to, m)
	default:
		return proto.MarshalOptions{}.MarshalAppend(to, m)
	}
}

// Unmarshal implements connect.Codec.
func (c codec) Unmarshal(data []byte, message any) error {
	if e, wrapped := message.(*envelope); wrapped {
		e.raw, e.form = bytes.Clone(data), c
		return nil
	}
	return c.decode(data, message)
}

func (c codec) decode(data []byte, message any) error {
	m, err := stack.ProtoMessage(name, message)
	switch {
	case err != nil:
		return err
	case c == json:
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
	default:
		return proto.Unmarshal(data, m)
	}
}
