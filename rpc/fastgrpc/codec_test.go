package fastgrpc

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
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

// TestVTMethods checks that a message's vtprotobuf methods are used with VTProto only.
func TestVTMethods(t *testing.T) {
	for uses, options := range []limits{{}, {vt: true}} {
		codec := options.codecFor("")
		v := &vtValue{BytesValue: wrapperspb.Bytes([]byte("content"))}
		b, err := message.Encode(codec, nil, v, 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := codec.Decode(b.Data[wire.PrefixLen:], v, false); err != nil || string(v.Value) != "content" {
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

// TestVTOption checks the options VTProto and WithVTProto, by calls with a message that
// has vtprotobuf's methods, and that a content-subtype does not undo them.
func TestVTOption(t *testing.T) {
	served := new(vtValue)
	desc := bytesEcho
	desc.Methods = []grpc.MethodDesc{{MethodName: "Echo", Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		served.BytesValue = new(wrapperspb.BytesValue)
		return served, dec(served)
	}}}
	for uses, vt := range []bool{false, true} {
		var server []ServerOption
		var client []ClientOption
		if vt {
			server, client = append(server, VTProto()), append(client, WithVTProto())
		}
		*served = vtValue{}
		s := NewServer(server...)
		s.RegisterService(&desc, nil)
		c := dialFast(t, serve(t, s), client...)
		for _, option := range []grpc.CallOption{grpc.StaticMethod(), grpc.CallContentSubtype("proto")} {
			v := &vtValue{BytesValue: wrapperspb.Bytes([]byte("content"))}
			if err := c.Invoke(testContext(t), "/test.Echo/Echo", v, v, option); err != nil || string(v.Value) != "content" {
				t.Fatalf("%q came back: %v", v.Value, err)
			}
			if v.written != uses || v.read != uses {
				t.Errorf("the client used vtprotobuf's methods %d and %d times, want %d", v.written, v.read, uses)
			}
		}
		if served.written != 2*uses || served.read != 2*uses {
			t.Errorf("the server used vtprotobuf's methods %d and %d times in 2 calls, want %d", served.written, served.read, 2*uses)
		}
	}
}

// TestReusedMessageIsCleared checks that decoding into a used message drops its content.
func TestReusedMessageIsCleared(t *testing.T) {
	empty, err := message.Encode(message.ProtoCodec{}, nil, wrapperspb.Bytes(nil), 100)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Release()
	for _, v := range []proto.Message{wrapperspb.Bytes([]byte("old")), &vtValue{BytesValue: wrapperspb.Bytes([]byte("old"))}, vtAliased{wrapperspb.Bytes([]byte("old"))}} {
		for _, alias := range []bool{false, true} {
			if err := (message.ProtoCodec{VT: true}).Decode(empty.Data[wire.PrefixLen:], v, alias); err != nil {
				t.Fatal(err)
			}
			if n := proto.Size(v); n != 0 {
				t.Errorf("%T, aliased %v: %d bytes are left", v, alias, n)
			}
		}
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
