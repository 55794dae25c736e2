package carry

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"wirelab.dev/internal/wire/stack"
)

// Split returns the service and the operation of a full method name, "/SERVICE/OPERATION".
func Split(method string) (service, operation string) {
	service, operation, _ = strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return service, operation
}

// RequestType returns the generated type of a method's request.
func RequestType(m *stack.Method) (protoreflect.MessageType, error) {
	service, operation := Split(m.FullName)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + operation))
	if err != nil {
		return nil, fmt.Errorf("find the request of %s: %w", m.FullName, err)
	}
	method, is := found.(protoreflect.MethodDescriptor)
	if !is {
		return nil, fmt.Errorf("find the request of %s: it is no method", m.FullName)
	}
	return protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
}

// Encoding is protobuf, for libraries that ask for an encoding.
type Encoding struct{}

// Marshal returns a message's bytes.
func (Encoding) Marshal(message any) ([]byte, error) {
	m, err := ProtoOf(message)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

// MarshalAppend appends a message's bytes.
func (Encoding) MarshalAppend(to []byte, message any) ([]byte, error) {
	m, err := ProtoOf(message)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(to, m)
}

// Unmarshal reads a message.
func (Encoding) Unmarshal(from []byte, message any) error {
	m, err := ProtoOf(message)
	if err != nil {
		return err
	}
	return proto.Unmarshal(from, m)
}
