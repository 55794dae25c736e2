package fake

import (
	"reflect"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// answer makes the request the response, field by field: the two share what
// their fields point to. It is a copy of the Go struct, because that takes some
// 20 ns where proto.Merge takes hundreds; the only thing in a generated struct
// that a copy could hurt is its cached pointer to the message's description,
// which is the same for both. It does not allocate.
func answer(method string, args, reply any) error {
	if reflect.TypeOf(args) != reflect.TypeOf(reply) {
		return status.Errorf(codes.Unimplemented, "fake: it answers with the request, and the response of %s is of another type", method)
	}
	reflect.ValueOf(reply).Elem().Set(reflect.ValueOf(args).Elem())
	return nil
}

// corrupt flips the last bit of the first bytes field that is not empty, and
// leaves the request alone. Where there is none, the whole answer is emptied.
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
