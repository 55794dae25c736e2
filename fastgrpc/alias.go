package fastgrpc

import (
	"errors"

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
	if err := mergeAliased(data, m.ProtoReflect(), protowire.DefaultRecursionLimit); err != nil {
		return err
	}
	return proto.CheckInitialized(m)
}

var errTooDeep = errors.New("messages lie too deep within one another")

// mergeAliased reads at most depth messages within one another, as package proto does:
// a short one with very many would else take a stack of any size.
func mergeAliased(data []byte, m protoreflect.Message, depth int) error {
	if depth <= 0 {
		return errTooDeep
	}
	options := proto.UnmarshalOptions{Merge: true, AllowPartial: true, RecursionLimit: depth}
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
