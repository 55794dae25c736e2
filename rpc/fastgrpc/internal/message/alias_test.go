package message

import (
	"bytes"
	"slices"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	rpccall "wirelab.dev/rpc/call"
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
	if err := rpccall.UnmarshalAliased(data, out); err != nil {
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

// FuzzUnmarshalAliased compares with package proto: messages with every kind of field,
// merged from parts, with a long field in the middle so that something is aliased.
func FuzzUnmarshalAliased(f *testing.F) {
	kinds := []protoreflect.MessageDescriptor{node(f, "proto2"), node(f, "proto3"), new(testgrpc.SimpleRequest).ProtoReflect().Descriptor()}
	for field := range protowire.Number(nodeExtra + 1) {
		f.Add(nested(2, []byte("\x08\x01"), wrap{field: field + 1}), uint16(2000), byte(field%16), byte(field))
		f.Add(nested(3, bytes.Repeat([]byte{0xff}, 1500), wrap{field: field + 1}), uint16(0), byte(field%16), byte(field))
	}
	f.Add(nested(6, nil, wrap{field: nodeGroup, group: true}, wrap{field: nodeNext}), uint16(5000), byte(nodeOr), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, grow uint16, field, which byte) {
		defer skipBrokenMaps(t)
		kind := kinds[int(which)%len(kinds)]
		long := nested(2, bytes.Repeat(data, 1+int(grow)/(len(data)+1)), wrap{field: max(1, protowire.Number(field))})
		data = slices.Concat(data, long, data)
		want, got := dynamicpb.NewMessage(kind), dynamicpb.NewMessage(kind)
		wantErr, gotErr := proto.Unmarshal(data, want), rpccall.UnmarshalAliased(data, got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("error %v, package proto %v", gotErr, wantErr)
		}
		if wantErr == nil && !proto.Equal(want, got) {
			t.Fatalf("got %v, package proto %v", got, want)
		}
	})
}
