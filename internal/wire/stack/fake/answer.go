package fake

import (
	"reflect"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// answer copies the request's struct to the response: the two share what their fields
// point to. That takes some 20 ns, and proto.Merge hundreds. The copy is safe: the only
// internal field of a generated struct that matters is the cached pointer to the
// message's description, which is the same for both. It does not allocate.
func answer(method string, args, reply any) error {
	if reflect.TypeOf(args) != reflect.TypeOf(reply) {
		return status.Errorf(codes.Unimplemented, "fake: it answers with the request, but the response of %s has another type", method)
	}
	reflect.ValueOf(reply).Elem().Set(reflect.ValueOf(args).Elem())
	return nil
}

// corrupt flips the last bit of the first bytes field that is not empty, without
// changing the request. If there is none, it empties the answer.
func corrupt(reply any) {
	message := reply.(proto.Message)
	flipped := false
	message.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() != protoreflect.BytesKind || field.Cardinality() == protoreflect.Repeated || len(value.Bytes()) == 0 {
			return true
		}
		data := slices.Clone(value.Bytes())
		data[len(data)-1] ^= 1
		message.ProtoReflect().Set(field, protoreflect.ValueOfBytes(data))
		flipped = true
		return false
	})
	if !flipped {
		proto.Reset(message)
	}
}
