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
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A Method is a gRPC method. Any goroutine may use it.
type Method struct {
	Path   string // /pkg.Service/Method
	Stream Stream

	Descriptor protoreflect.MethodDescriptor

	files *protoregistry.Files
	types resolver
}

// A Stream says which ends of a call send a stream. The zero value is unary.
type Stream struct {
	Client bool `json:"client,omitempty"` // the client sends any number of messages
	Server bool `json:"server,omitempty"` // the server sends any number of messages
}

// maxSetBytes limits the size of a descriptor set that Files returns whole. From a larger set, such
// as an image of all files of a company, Files returns only the service and its imports.
const maxSetBytes = 4 << 20

// Files returns an encoded FileDescriptorSet, which Load can read.
func (m *Method) Files() ([]byte, error) {
	var collected fileSet
	collected.add(m.Descriptor.ParentFile())
	needed := len(collected.files)
	// Sort the files by name, so that equal sources give equal sets.
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

// Describe returns a few lines about the method's request and answer.
func (m *Method) Describe() string {
	var text strings.Builder
	d := m.Descriptor
	fmt.Fprintln(&text, signature(d))
	fields := d.Input().Fields()
	if fields.Len() == 0 {
		fmt.Fprintf(&text, "  %s has no fields\n", d.Input().FullName())
	}
	for i := range fields.Len() {
		fmt.Fprintf(&text, "  %q: %s\n", fields.Get(i).JSONName(), typeName(fields.Get(i)))
	}
	return text.String()
}

// Encode encodes JSON as messages: one per object or array element. The text may hold several JSON
// values. Empty text gives one empty message. If the client sends a stream, all messages belong to
// one call. Otherwise each message is one call.
func (m *Method) Encode(text []byte) ([][]byte, error) {
	elements, err := m.splitMessages(text)
	if err != nil {
		return nil, err
	}
	messages := make([][]byte, len(elements))
	for i, e := range elements {
		message, err := m.decodeJSON(m.Descriptor.Input(), text, e)
		if err != nil {
			return nil, err
		}
		if messages[i], err = deterministic.Marshal(message); err != nil {
			return nil, fmt.Errorf("encode a %s: %w", m.Descriptor.Input().FullName(), err)
		}
	}
	return messages, nil
}

// Calls encodes JSON as Encode does, and returns the messages of each call.
func (m *Method) Calls(text []byte) ([][][]byte, error) {
	messages, err := m.Encode(text)
	if err != nil || m.Stream.Client {
		return [][][]byte{messages}, err
	}
	return slices.Collect(slices.Chunk(messages, 1)), nil
}

// EncodedCalls returns the messages of each call, as Calls does. data is an encoded message, or several
// of them, each behind its length as a varint.
func (m *Method) EncodedCalls(data []byte) ([][][]byte, error) {
	messages := [][]byte{data}
	if !m.isInput(data) {
		messages = nil
		for rest := data; len(rest) > 0; {
			message, n := protowire.ConsumeBytes(rest)
			if n < 0 || !m.isInput(message) {
				return nil, fmt.Errorf("the data is neither an encoded %s, nor several of them, each behind its length", m.Descriptor.Input().FullName())
			}
			messages, rest = append(messages, message), rest[n:]
		}
	}
	if m.Stream.Client {
		return [][][]byte{messages}, nil
	}
	return slices.Collect(slices.Chunk(messages, 1)), nil
}

// isInput reports whether data is an encoded request, and has no unknown field.
func (m *Method) isInput(data []byte) bool {
	d := dynamicpb.NewMessage(m.Descriptor.Input())
	return proto.Unmarshal(data, d) == nil && len(d.GetUnknown()) == 0
}

// Decode returns an answer's message as compact JSON. A field that the message omits gets its
// default value, so that a condition can use the field.
func (m *Method) Decode(message []byte) ([]byte, error) {
	return m.decode("answer", m.Descriptor.Output(), message)
}

// DecodeRequest returns a request's message as Decode does.
func (m *Method) DecodeRequest(message []byte) ([]byte, error) {
	return m.decode("request", m.Descriptor.Input(), message)
}

func (m *Method) decode(what string, as protoreflect.MessageDescriptor, message []byte) ([]byte, error) {
	d := dynamicpb.NewMessage(as)
	if err := (proto.UnmarshalOptions{Resolver: m.types}).Unmarshal(message, d); err != nil {
		return nil, fmt.Errorf("decode the %s as %s: %w", what, as.FullName(), err)
	}
	text, err := protojson.MarshalOptions{Resolver: m.types, EmitDefaultValues: true}.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("convert the %s (%s) into JSON: %w", what, as.FullName(), err)
	}
	var compact bytes.Buffer // protojson varies its white space on purpose
	err = json.Compact(&compact, text)
	return compact.Bytes(), err
}

// Input makes a request from a JSON object.
func (m *Method) Input(text []byte) (*dynamicpb.Message, error) {
	return m.decodeJSON(m.Descriptor.Input(), text, wholeSpan(text))
}

// Output makes an answer from a JSON object.
func (m *Method) Output(text []byte) (*dynamicpb.Message, error) {
	return m.decodeJSON(m.Descriptor.Output(), text, wholeSpan(text))
}

func (m *Method) decodeJSON(d protoreflect.MessageDescriptor, text []byte, s span) (*dynamicpb.Message, error) {
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

// arrayTypes are message types whose JSON form may be an array.
var arrayTypes = map[protoreflect.FullName]bool{
	"google.protobuf.ListValue": true,
	"google.protobuf.Value":     true,
}

func (m *Method) splitMessages(text []byte) ([]span, error) {
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
		return nil, errors.New("the array of requests is empty: want at least one element, because each makes a call")
	}
	elements := make([]span, len(parts))
	for i, p := range parts {
		elements[i] = p.value
	}
	return elements, nil
}
