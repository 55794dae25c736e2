package message

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	rpccall "wirelab.dev/rpc/call"
)

// checkDepth returns an error if data, a message of the kind, nests more messages than package
// proto allows. It is for vtprotobuf's decoders, which recurse without a limit: 16 MiB of nested
// messages overflow Go's stack, which ends the process.
//
// A level takes at least two bytes, so checkDepth reads only messages that are long enough to
// break the limit. Most messages cost nothing, the others one pass over their long fields.
func checkDepth(data []byte, kind protoreflect.MessageDescriptor) error {
	s := depthScan{data: data}
	return s.message(len(data), kind, 0, protowire.DefaultRecursionLimit)
}

// depthScan walks over an encoded message. It reads each byte once: a search for the end of each
// group could cost the square of their depth.
type depthScan struct {
	data []byte
	at   int
}

// message reads a message that ends at end or, as a group, with that group's tag. levels limits
// its nesting, itself included.
func (s *depthScan) message(end int, kind protoreflect.MessageDescriptor, group protowire.Number, levels int) error {
	if levels <= 0 {
		return rpccall.ErrTooDeep
	}
	if group == 0 && end-s.at < 2*levels {
		s.at = end
		return nil
	}
	for s.at < end {
		number, wire, n := protowire.ConsumeTag(s.data[s.at:end])
		if n < 0 {
			return protowire.ParseError(n)
		}
		s.at += n
		if wire == protowire.EndGroupType && number == group {
			return nil
		}
		if err := s.field(end, number, wire, kind.Fields().ByNumber(number), levels); err != nil {
			return err
		}
	}
	if group != 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// field reads a field's value. A value of another type than the field's is not decoded, and counts
// as unknown.
func (s *depthScan) field(end int, number protowire.Number, wire protowire.Type, field protoreflect.FieldDescriptor, levels int) error {
	switch {
	case field == nil:
	case wire == protowire.StartGroupType && field.Kind() == protoreflect.GroupKind:
		return s.message(end, field.Message(), number, levels-1)
	case wire == protowire.BytesType && field.Kind() == protoreflect.MessageKind:
		value, n := protowire.ConsumeBytes(s.data[s.at:end])
		if n < 0 {
			return protowire.ParseError(n)
		}
		s.at += n - len(value)
		return s.message(s.at+len(value), field.Message(), 0, levels-1)
	}
	n := protowire.ConsumeFieldValue(number, wire, s.data[s.at:end])
	if n < 0 {
		return protowire.ParseError(n)
	}
	s.at += n
	return nil
}
