package connectstack

import (
	"bytes"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// envelope is a unary message on its way through connect-go, which makes the
// messages that it receives itself and so must be given a type that it can make.
// It carries a message out, and the bytes of one in.
type envelope struct {
	message any
	raw     []byte
}

// codec is connect-go's binary protobuf, which sees into envelopes. What it
// costs beside that is one copy of an incoming unary message: connect-go reuses
// the buffer that it decodes from.
type codec struct{}

var _ connect.Codec = codec{}

// Name is that of connect-go's own, so that the media types are the same.
func (codec) Name() string { return "proto" }

func (codec) Marshal(message any) ([]byte, error) { return codec{}.MarshalAppend(nil, message) }

// MarshalAppend is looked for by connect-go, which then marshals into a buffer
// of its own.
func (codec) MarshalAppend(to []byte, message any) ([]byte, error) {
	if e, wrapped := message.(*envelope); wrapped {
		message = e.message
	}
	m, is := message.(proto.Message)
	if !is {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return proto.MarshalOptions{}.MarshalAppend(to, m)
}

func (codec) Unmarshal(data []byte, message any) error {
	if e, wrapped := message.(*envelope); wrapped {
		e.raw = bytes.Clone(data)
		return nil
	}
	return decode(data, message)
}

func decode(data []byte, message any) error {
	m, is := message.(proto.Message)
	if !is {
		return fmt.Errorf("%T is no protobuf message", message)
	}
	return proto.Unmarshal(data, m)
}
