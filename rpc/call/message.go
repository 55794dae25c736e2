package rpccall

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"wirelab.dev/rpc/batchio"
)

// MarshalOptions configure the encoding of a message.
type MarshalOptions struct {
	Prefix int  // bytes to leave free before the message
	VT     bool // use vtprotobuf's methods if the message has them
}

// A sizedMarshaler has the methods that vtprotobuf generates for encoding into given memory.
type sizedMarshaler interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// Marshal encodes a message into a buffer to be sent. The caller fills in the prefix.
func Marshal(v any, o MarshalOptions) (*batchio.Buffer, error) {
	m, err := Measure(v, o)
	if err != nil {
		return nil, err
	}
	return m.Marshal()
}

// A SizedMessage is a message with its size. The message must not change before Marshal returns.
type SizedMessage struct {
	Size   int // length of the encoded message, without the prefix
	prefix int
	vt     sizedMarshaler // nil means that plain is set
	plain  proto.Message
}

// Measure computes the size of a protobuf message.
func Measure(v any, o MarshalOptions) (SizedMessage, error) {
	if m, ok := v.(sizedMarshaler); ok && o.VT {
		return SizedMessage{Size: m.SizeVT(), prefix: o.Prefix, vt: m}, nil
	}
	m, err := Message(v)
	if err != nil {
		return SizedMessage{}, err
	}
	return SizedMessage{Size: proto.Size(m), prefix: o.Prefix, plain: m}, nil
}

// Marshal encodes the message, as the function [Marshal] does.
func (m *SizedMessage) Marshal() (*batchio.Buffer, error) {
	b := batchio.NewBuffer(m.prefix + m.Size)
	if m.vt != nil {
		n, err := m.vt.MarshalToSizedBufferVT(b.Data[m.prefix:])
		if err == nil && n != m.Size { // the rest of the buffer holds bytes of its last use
			err = fmt.Errorf("encoded %d bytes, want %d: did another goroutine change the message?", n, m.Size)
		}
		if err != nil {
			b.Release()
			return nil, fmt.Errorf("marshal %T: %w", m.vt, err)
		}
		return b, nil
	}
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b.Data[:m.prefix], m.plain)
	if err != nil {
		b.Release()
		return nil, fmt.Errorf("marshal %T: %w", m.plain, err)
	}
	b.SetData(data)
	return b, nil
}

// Message returns v as a message of package proto.
func Message(v any) (proto.Message, error) {
	switch v := v.(type) {
	case proto.Message:
		return v, nil
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(v), nil
	}
	return nil, fmt.Errorf("message is %T, want proto.Message", v)
}

// minAliasedField is the least length of a bytes field that UnmarshalAliased does not copy. For a
// shorter field, a copy costs less than reflection.
const minAliasedField = 1 << 10

// UnmarshalAliased unmarshals data into m. Long bytes fields then point into data, also in nested
// messages. Package proto has no option for that, so UnmarshalAliased sets these fields by
// reflection. It passes the other fields to package proto.
func UnmarshalAliased(data []byte, m proto.Message) error {
	if len(data) < minAliasedField {
		return proto.Unmarshal(data, m)
	}
	proto.Reset(m)
	if err := mergeAliased(data, m.ProtoReflect(), protowire.DefaultRecursionLimit); err != nil {
		return err
	}
	return proto.CheckInitialized(m)
}

// ErrTooDeep is the error for a message that is nested deeper than package proto allows.
var ErrTooDeep = errors.New("message is nested too deeply")

// mergeAliased limits the nesting to depth, as package proto does. Without the limit,
// a short but deeply nested message could use a stack of any size.
func mergeAliased(data []byte, m protoreflect.Message, depth int) error {
	if depth <= 0 {
		return ErrTooDeep
	}
	options := proto.UnmarshalOptions{Merge: true, AllowPartial: true, RecursionLimit: depth}
	fields := m.Descriptor().Fields()
	others := 0 // data[others:at] holds fields for package proto
	for at := 0; at < len(data); {
		number, kind, n := protowire.ConsumeTag(data[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, kind, data[at+n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		begin := at
		at += n + size
		if size < minAliasedField || kind != protowire.BytesType {
			continue
		}
		field := fields.ByNumber(number)
		if field == nil || field.IsList() || field.IsMap() || field.Kind() != protoreflect.BytesKind && field.Kind() != protoreflect.MessageKind {
			continue
		}
		value, _ := protowire.ConsumeBytes(data[begin+n:])
		if err := options.Unmarshal(data[others:begin], m.Interface()); err != nil {
			return err
		}
		others = at
		if field.Kind() == protoreflect.BytesKind {
			m.Set(field, protoreflect.ValueOfBytes(value[:len(value):len(value)]))
		} else if err := mergeAliased(value, m.Mutable(field).Message(), depth-1); err != nil {
			return err
		}
	}
	return options.Unmarshal(data[others:], m.Interface())
}
