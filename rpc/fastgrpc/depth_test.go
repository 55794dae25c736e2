package fastgrpc

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/descriptorpb"
)

// vtNode decodes like code that vtprotobuf generates: by recursion, without a limit.
type vtNode struct{ *descriptorpb.DescriptorProto }

func (n vtNode) UnmarshalVT(data []byte) error {
	for len(data) > 0 {
		number, wire, tag := protowire.ConsumeTag(data)
		size := protowire.ConsumeFieldValue(number, wire, data[max(0, tag):])
		if tag < 0 || size < 0 {
			return errors.New("unexpected end")
		}
		if number == nestedType {
			value, _ := protowire.ConsumeBytes(data[tag:])
			if err := n.UnmarshalVT(value); err != nil {
				return err
			}
		}
		data = data[tag+size:]
	}
	return nil
}

// TestDeepRequest sends a server a message that is nested more deeply than package proto
// allows. Code of vtprotobuf would decode it, with a stack of hundreds of megabytes.
func TestDeepRequest(t *testing.T) {
	desc := bytesEcho
	desc.Methods = []grpc.MethodDesc{{MethodName: "Echo", Handler: deepHandler()}}
	for name, options := range map[string][]ServerOption{"proto": nil, "vtprotobuf": {VTProto()}} {
		s := NewServer(options...)
		s.RegisterService(&desc, nil)
		c := dialFast(t, serve(t, s))
		in := nestedTypes(800_000)
		err := c.Invoke(testContext(t), "/test.Echo/Echo", in, new([]byte), grpc.ForceCodecV2(verbatim{}))
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: a request of %d nested bytes: %v, want Internal", name, len(in), err)
		}
	}
}

func deepHandler() grpc.MethodHandler {
	return func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := vtNode{new(descriptorpb.DescriptorProto)}
		return in, dec(in)
	}
}

// nestedType is the number of the field of a DescriptorProto that holds others.
const nestedType = 3

// nestedTypes returns a message that is nested in others.
func nestedTypes(levels int) []byte {
	var heads [][]byte
	size := 0
	for range levels {
		head := protowire.AppendVarint(protowire.AppendTag(nil, nestedType, protowire.BytesType), uint64(size))
		heads = append(heads, head)
		size += len(head)
	}
	slices.Reverse(heads)
	return bytes.Join(heads, nil)
}

// verbatim sends []byte as it is.
type verbatim struct{}

func (verbatim) Name() string { return "proto" }

func (verbatim) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (verbatim) Unmarshal(b mem.BufferSlice, v any) error {
	*v.(*[]byte) = b.Materialize()
	return nil
}
