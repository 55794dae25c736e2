package rpccall

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// minAliasedField is the length from which a bytes field is aliased. For shorter ones,
// the copy that package proto makes costs less than reflection.
const minAliasedField = 1 << 10

// UnmarshalAliased unmarshals data into m, with long bytes fields pointing into data.
// Package proto has no option for that, so it sets those fields by reflection, also in
// nested messages, and passes the other fields to package proto.
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

// ErrTooDeep says that a message is nested deeper than package proto allows.
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
		if field == nil || field.IsList() || field.IsMap() {
			continue
		}
		value, _ := protowire.ConsumeBytes(data[begin+n:])
		switch field.Kind() {
		case protoreflect.BytesKind, protoreflect.MessageKind:
		default:
			continue
		}
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
