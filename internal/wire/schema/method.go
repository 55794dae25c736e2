package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A Method is a method of gRPC. Its methods may be called concurrently.
type Method struct {
	Path   string // /pkg.Service/Method
	Stream Stream

	Descriptor protoreflect.MethodDescriptor

	files *protoregistry.Files
	types resolver
}

// A Stream is a kind of method. The zero value is unary.
type Stream struct {
	Client bool `json:"client,omitempty"` // sends any number of messages
	Server bool `json:"server,omitempty"` // answers with any number of messages
}

// maxSetBytes limits the size of a set that is passed on whole. Of a larger one, such as an image
// of all files of a company, only the service and its imports are taken.
const maxSetBytes = 4 << 20

// Files encodes the descriptors, as a FileDescriptorSet, for Load.
func (m *Method) Files() ([]byte, error) {
	var collected fileSet
	collected.add(m.Descriptor.ParentFile())
	needed := len(collected.files)
	// By name, so that equal sources have equal sets.
	byName := func(a, b protoreflect.FileDescriptor) int { return cmp.Compare(a.Path(), b.Path()) }
	for _, file := range slices.SortedFunc(m.files.RangeFiles, byName) {
		collected.add(file)
	}
	set, err := collected.encode(len(collected.files))
	if err == nil && len(set) > maxSetBytes {
		set, err = collected.encode(needed)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the descriptors of %s: %w", m.Path, err)
	}
	return set, nil
}

// Describe describes in a few lines the method's request and answer.
func (m *Method) Describe() string {
	var text strings.Builder
	kind := func(stream bool) string {
		if stream {
			return "stream "
		}
		return ""
	}
	d := m.Descriptor
	fmt.Fprintf(&text, "%s(%s%s) returns (%s%s)\n", callName(d),
		kind(m.Stream.Client), d.Input().FullName(), kind(m.Stream.Server), d.Output().FullName())
	fields := d.Input().Fields()
	if fields.Len() == 0 {
		fmt.Fprintf(&text, "  %s has no fields\n", d.Input().FullName())
	}
	for i := range fields.Len() {
		fmt.Fprintf(&text, "  %q: %s\n", fields.Get(i).JSONName(), typeName(fields.Get(i)))
	}
	return text.String()
}

// Encode encodes JSON: one message per object or element of an array, also of several JSON values
// in a row. Empty text gives one empty message. If the client sends a stream, all messages belong
// to one call; otherwise each is a call.
func (m *Method) Encode(text []byte) ([][]byte, error) {
	elements, err := m.split(text)
	if err != nil {
		return nil, err
	}
	messages := make([][]byte, len(elements))
	for i, e := range elements {
		message, err := m.message(m.Descriptor.Input(), text, e)
		if err != nil {
			return nil, err
		}
		if messages[i], err = deterministic.Marshal(message); err != nil {
			return nil, fmt.Errorf("a %s: %w", m.Descriptor.Input().FullName(), err)
		}
	}
	return messages, nil
}

// Calls encodes JSON as Encode does, and returns the messages call by call.
func (m *Method) Calls(text []byte) ([][][]byte, error) {
	messages, err := m.Encode(text)
	if err != nil || m.Stream.Client {
		return [][][]byte{messages}, err
	}
	return slices.Collect(slices.Chunk(messages, 1)), nil
}

// Decode returns an answer's message as JSON without white space. Fields that the message
// leaves out are shown with their default, so that a condition can name them.
func (m *Method) Decode(message []byte) ([]byte, error) {
	d := dynamicpb.NewMessage(m.Descriptor.Output())
	if err := (proto.UnmarshalOptions{Resolver: m.types}).Unmarshal(message, d); err != nil {
		return nil, fmt.Errorf("the answer is no %s: %w", m.Descriptor.Output().FullName(), err)
	}
	text, err := protojson.MarshalOptions{Resolver: m.types, EmitDefaultValues: true}.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("the answer, a %s, as JSON: %w", m.Descriptor.Output().FullName(), err)
	}
	var compact bytes.Buffer // protojson varies its white space on purpose
	err = json.Compact(&compact, text)
	return compact.Bytes(), err
}

// Input makes a request of a JSON object.
func (m *Method) Input(text []byte) (*dynamicpb.Message, error) {
	return m.message(m.Descriptor.Input(), text, whole(text))
}

// Output makes an answer of a JSON object.
func (m *Method) Output(text []byte) (*dynamicpb.Message, error) {
	return m.message(m.Descriptor.Output(), text, whole(text))
}

// message makes a message of a span of text.
func (m *Method) message(d protoreflect.MessageDescriptor, text []byte, s span) (*dynamicpb.Message, error) {
	message := dynamicpb.NewMessage(d)
	value := text[s.from:s.to]
	if len(bytes.TrimSpace(value)) == 0 {
		return message, nil
	}
	err := protojson.UnmarshalOptions{Resolver: m.types}.Unmarshal(value, message)
	if err != nil {
		return nil, explain(m.types, text, fault{descriptor: d, span: s, cause: err})
	}
	return message, nil
}

// arrayTypes are messages whose own JSON may be an array.
var arrayTypes = map[protoreflect.FullName]bool{
	"google.protobuf.ListValue": true,
	"google.protobuf.Value":     true,
}

// split finds the messages in a text.
func (m *Method) split(text []byte) ([]span, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []span{{}}, nil
	}
	values, err := topValues(text)
	if err != nil {
		return nil, err
	}
	if len(values) != 1 || text[values[0].from] != '[' || arrayTypes[m.Descriptor.Input().FullName()] {
		return values, nil
	}
	parts := partsOf(text, values[0])
	if len(parts) == 0 && !m.Stream.Client {
		return nil, errors.New("the array of requests is empty: each element is a call, so want at least one")
	}
	elements := make([]span, len(parts))
	for i, p := range parts {
		elements[i] = p.value
	}
	return elements, nil
}
