package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Encode encodes JSON: an object is one message, an array is several, and several texts one
// after the other are several too. Without any text there is one empty message. If the
// method's client sends a stream, they are the messages of one call; otherwise each is the
// message of its own call.
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

var deterministic = proto.MarshalOptions{Deterministic: true}

// Calls encodes JSON as Encode does, and returns the messages call by call.
func (m *Method) Calls(text []byte) ([][][]byte, error) {
	messages, err := m.Encode(text)
	if err != nil || m.Stream.Client {
		return [][][]byte{messages}, err
	}
	calls := make([][][]byte, len(messages))
	for i := range messages {
		calls[i] = messages[i : i+1]
	}
	return calls, nil
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

// message makes a message of a stretch of text.
func (m *Method) message(d protoreflect.MessageDescriptor, text []byte, s stretch) (*dynamicpb.Message, error) {
	message := dynamicpb.NewMessage(d)
	value := text[s.from:s.to]
	if len(bytes.TrimSpace(value)) == 0 {
		return message, nil
	}
	err := protojson.UnmarshalOptions{Resolver: m.types}.Unmarshal(value, message)
	if err != nil {
		return nil, explain(m.types, text, fault{descriptor: d, stretch: s, cause: err})
	}
	return message, nil
}

// A stretch is a part of a text: a value, without the white space around it.
type stretch struct{ from, to int }

func whole(text []byte) stretch {
	return stretch{len(text) - len(bytes.TrimLeft(text, " \t\r\n")), len(text)}
}

// arrayTypes are messages whose own JSON may be an array.
var arrayTypes = map[protoreflect.FullName]bool{
	"google.protobuf.ListValue": true,
	"google.protobuf.Value":     true,
}

// split finds the messages in a text.
func (m *Method) split(text []byte) ([]stretch, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []stretch{{}}, nil
	}
	values, err := topValues(text)
	if err != nil {
		return nil, err
	}
	if len(values) != 1 || text[values[0].from] != '[' || arrayTypes[m.Descriptor.Input().FullName()] {
		return values, nil
	}
	elements, err := elementsOf(text, values[0])
	if err == nil && len(elements) == 0 && !m.Stream.Client {
		err = errors.New("the array of requests is empty: each element is a call, so want at least one")
	}
	return elements, err
}

// topValues finds the values that stand one after the other.
func topValues(text []byte) ([]stretch, error) {
	var values []stretch
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case err == nil:
			end := int(decoder.InputOffset())
			values = append(values, stretch{end - len(value), end})
		case len(bytes.TrimSpace(text[decoder.InputOffset():])) == 0:
			return values, nil
		default:
			return nil, syntaxError(text, err)
		}
	}
}

// elementsOf finds the elements of an array that is known to be right.
func elementsOf(text []byte, array stretch) ([]stretch, error) {
	var elements []stretch
	decoder := json.NewDecoder(bytes.NewReader(text[array.from:array.to]))
	if _, err := decoder.Token(); err != nil { // the bracket
		return nil, syntaxError(text, err)
	}
	for decoder.More() {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, syntaxError(text, err)
		}
		end := array.from + int(decoder.InputOffset())
		elements = append(elements, stretch{end - len(value), end})
	}
	return elements, nil
}
