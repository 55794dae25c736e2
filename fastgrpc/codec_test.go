package fastgrpc

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// vtValue has vtprotobuf's methods and counts their use.
type vtValue struct {
	*wrapperspb.BytesValue
	written, read int
}

func (v *vtValue) SizeVT() int { return proto.Size(v.BytesValue) }

func (v *vtValue) MarshalToSizedBufferVT(p []byte) (int, error) {
	v.written++
	data, err := proto.MarshalOptions{}.MarshalAppend(p[:0], v.BytesValue)
	return len(data), err
}

func (v *vtValue) UnmarshalVT(p []byte) error {
	v.read++
	return proto.Unmarshal(p, v.BytesValue)
}

// TestVTMethods: they are used where there are any, unless package proto is asked for.
func TestVTMethods(t *testing.T) {
	for uses, codec := range []protoCodec{{plain: true}, {}} {
		v := &vtValue{BytesValue: wrapperspb.Bytes([]byte("content"))}
		b, err := encodeMessage(codec, nil, v, 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := codec.unmarshal(b.data[prefixLen:], v, false); err != nil || string(v.Value) != "content" {
			t.Errorf("%+v: %q came back: %v", codec, v.Value, err)
		}
		if v.written != uses || v.read != uses {
			t.Errorf("%+v: vtprotobuf wrote %d times and read %d times, want %d", codec, v.written, v.read, uses)
		}
		b.Release()
	}
}
