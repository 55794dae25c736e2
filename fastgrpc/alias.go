package fastgrpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// aliasField is the length from which a bytes field is aliased: below it the copy
// that package proto makes is cheaper than reflection.
const aliasField = 1 << 10

// unmarshalAliased reads m so that its long bytes fields point into data, for which
// package proto has no option. It sets those fields by reflection, also in nested
// messages, and leaves the runs of other fields between them to package proto.
func unmarshalAliased(data []byte, m proto.Message) error {
	if len(data) < aliasField {
		return proto.Unmarshal(data, m)
	}
	proto.Reset(m)
	if err := mergeAliased(data, m.ProtoReflect()); err != nil {
		return err
	}
	return proto.CheckInitialized(m)
}

var mergeOptions = proto.UnmarshalOptions{Merge: true, AllowPartial: true}

func mergeAliased(data []byte, m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	others := 0 // data[others:at] is a run of fields for package proto
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
		if size < aliasField || kind != protowire.BytesType {
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
		if err := mergeOptions.Unmarshal(data[others:begin], m.Interface()); err != nil {
			return err
		}
		others = at
		if field.Kind() == protoreflect.BytesKind {
			m.Set(field, protoreflect.ValueOfBytes(value[:len(value):len(value)]))
		} else if err := mergeAliased(value, m.Mutable(field).Message()); err != nil {
			return err
		}
	}
	return mergeOptions.Unmarshal(data[others:], m.Interface())
}
