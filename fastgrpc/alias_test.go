package fastgrpc

import (
	"bytes"
	"slices"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

func TestUnmarshalAliased(t *testing.T) {
	body := bytes.Repeat([]byte{5}, 5000)
	in := &testgrpc.SimpleRequest{
		ResponseSize: 7, Payload: &testgrpc.Payload{Body: body}, FillUsername: true,
		ResponseStatus: &testgrpc.EchoStatus{Message: string(body)},
	}
	data, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &testgrpc.SimpleRequest{ResponseSize: 99} // to be forgotten
	if err := unmarshalAliased(data, out); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(in, out) {
		t.Fatalf("got %v", out)
	}
	data[bytes.IndexByte(data, 5)] = 6
	if out.Payload.Body[0] != 6 {
		t.Error("the body is a copy")
	}
}

// node is the type of a message that may hold another of its own kind.
func node(t *testing.T) protoreflect.MessageDescriptor {
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("node.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("Node"),
			Field: []*descriptorpb.FieldDescriptorProto{
				{Name: proto.String("next"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: proto.String(".Node")},
				{Name: proto.String("body"), Number: proto.Int32(2), Type: descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()},
			},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

// TestAliasedDepth checks that nesting has the same limit as in package proto.
func TestAliasedDepth(t *testing.T) {
	kind := node(t)
	for _, depth := range []int{1, 9000, 9999, 10_000, 10_001, 11_000, 100_000} {
		// Written from the inside out, so each level's head is put before the others.
		heads, size := make([][]byte, depth), 2000
		inner := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), make([]byte, size))
		size = len(inner)
		for i := range heads {
			heads[i] = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(size))
			size += len(heads[i])
		}
		slices.Reverse(heads)
		data := append(bytes.Join(heads, nil), inner...)
		want, got := dynamicpb.NewMessage(kind), dynamicpb.NewMessage(kind)
		wantErr, gotErr := proto.Unmarshal(data, want), unmarshalAliased(data, got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Errorf("depth %d: error %v, package proto %v", depth, gotErr, wantErr)
		}
	}
}

// FuzzUnmarshalAliased compares with package proto.
func FuzzUnmarshalAliased(f *testing.F) {
	for _, m := range []proto.Message{
		request(bytes.Repeat([]byte{1}, 3000)),
		&testgrpc.SimpleRequest{ResponseSize: 1, ResponseStatus: &testgrpc.EchoStatus{Code: 3, Message: string(make([]byte, 2000))}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint16(0))
		f.Add(append(data, data...), uint16(10))
	}
	f.Fuzz(func(t *testing.T, data []byte, grow uint16) {
		// A long body in the middle makes sure that something is aliased.
		long, err := proto.Marshal(request(make([]byte, int(grow))))
		if err != nil {
			t.Fatal(err)
		}
		data = append(append([]byte(nil), data...), append(long, data...)...)
		want, got := new(testgrpc.SimpleRequest), new(testgrpc.SimpleRequest)
		wantErr, gotErr := proto.Unmarshal(data, want), unmarshalAliased(data, got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("error %v, package proto %v", gotErr, wantErr)
		}
		if wantErr == nil && !proto.Equal(want, got) {
			t.Fatalf("got %v, package proto %v", got, want)
		}
	})
}
