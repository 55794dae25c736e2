package message

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	rpccall "wirelab.dev/rpc/call"
)

// checkDepth returns an error if data nests messages deeper than package proto allows. data is an
// encoded message of the type kind. vtprotobuf's decoders need this check, because they recurse
// without a limit: 16 MiB of nested messages would overflow Go's stack and end the process.
//
// Each level of nesting needs at least two bytes. So checkDepth skips messages that are too short
// to exceed the limit, which are most messages.
func checkDepth(data []byte, kind protoreflect.MessageDescriptor) error {
	s := depthScanner{data: data}
	return s.scanMessage(len(data), kind, 0, protowire.DefaultRecursionLimit)
}

// depthScanner reads an encoded message. It reads each byte only once. If it first searched for
// the end of each group, its time could grow with the square of the depth.
type depthScanner struct {
	data []byte
	at   int
}

// scanMessage reads a message up to the offset end, or a group up to its end tag. levels is how
// many levels the message may have, including itself.
func (s *depthScanner) scanMessage(end int, kind protoreflect.MessageDescriptor, group protowire.Number, levels int) error {
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
		if err := s.scanField(end, number, wire, kind.Fields().ByNumber(number), levels); err != nil {
			return err
		}
	}
	if group != 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// scanField reads a field's value. It skips a value whose wire type differs from the field's type,
// because decoders do not decode such a value.
func (s *depthScanner) scanField(end int, number protowire.Number, wire protowire.Type, field protoreflect.FieldDescriptor, levels int) error {
	switch {
	case field == nil:
	case wire == protowire.StartGroupType && field.Kind() == protoreflect.GroupKind:
		return s.scanMessage(end, field.Message(), number, levels-1)
	case wire == protowire.BytesType && field.Kind() == protoreflect.MessageKind:
		value, n := protowire.ConsumeBytes(s.data[s.at:end])
		if n < 0 {
			return protowire.ParseError(n)
		}
		s.at += n - len(value)
		return s.scanMessage(s.at+len(value), field.Message(), 0, levels-1)
	}
	n := protowire.ConsumeFieldValue(number, wire, s.data[s.at:end])
	if n < 0 {
		return protowire.ParseError(n)
	}
	s.at += n
	return nil
}
