package fastgrpc

import (
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
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

// TestVTMethods checks that a message's vtprotobuf methods are used, unless PlainProto
// is set.
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

// vtAliased has vtprotobuf's aliasing decoder, which appends to the existing content.
type vtAliased struct{ *wrapperspb.BytesValue }

func (v vtAliased) UnmarshalVTUnsafe(p []byte) error {
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(p, v.BytesValue)
}

// TestReusedMessageIsCleared checks that decoding into a used message drops its content.
func TestReusedMessageIsCleared(t *testing.T) {
	empty, err := encodeMessage(protoCodec{}, nil, wrapperspb.Bytes(nil), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Release()
	for _, v := range []proto.Message{wrapperspb.Bytes([]byte("old")), &vtValue{BytesValue: wrapperspb.Bytes([]byte("old"))}, vtAliased{wrapperspb.Bytes([]byte("old"))}} {
		for _, alias := range []bool{false, true} {
			if err := (protoCodec{}).unmarshal(empty.data[prefixLen:], v, alias); err != nil {
				t.Fatal(err)
			}
			if n := proto.Size(v); n != 0 {
				t.Errorf("%T, aliased %v: %d bytes are left", v, alias, n)
			}
		}
	}
}

// TestNilIsEmpty checks that nil is an empty message, with every codec, as for grpc-go.
func TestNilIsEmpty(t *testing.T) {
	for _, c := range []codec{protoCodec{}, codecV2{}, codecV1{}} {
		b, err := encodeMessage(c, nil, nil, 0)
		if err != nil || string(b.data) != "\x00\x00\x00\x00\x00" {
			t.Fatalf("%T: %v, %v", c, b, err)
		}
		b.Release()
	}
}

// counted is a program's replacement for grpc-go's proto codec: a value, not a pointer.
type counted struct {
	encoding.CodecV2
	n *atomic.Int32
}

func (c counted) Marshal(v any) (mem.BufferSlice, error) {
	c.n.Add(1)
	return c.CodecV2.Marshal(v)
}

// TestReplacedProtoCodec checks that a codec registered as "proto" is used.
func TestReplacedProtoCodec(t *testing.T) {
	own := encoding.GetCodecV2(grpcproto.Name)
	t.Cleanup(func() { encoding.RegisterCodecV2(own) })
	replaced := counted{own, new(atomic.Int32)}
	encoding.RegisterCodecV2(replaced)
	_, target := startFast(t)
	if err := ping(testContext(t), dialFast(t, target)); err != nil {
		t.Fatal(err)
	}
	if n := replaced.n.Load(); n != 2 {
		t.Errorf("the codec wrote %d messages, want the request and the response", n)
	}
}
