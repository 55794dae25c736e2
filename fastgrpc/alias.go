package fastgrpc

import (
	"errors"
	"os"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"wirelab.dev/internal/batchio"
)

// aliased holds the memory that the last message of a call may point into, until the
// next one is read. A handler may return while a goroutine of its own still receives, so
// whoever ends the call does not know whether the message is in use, and leaves its
// memory to the garbage collector.
type aliased struct {
	mu    sync.Mutex
	owner *batchio.Buffer
	ended bool
}

// hold takes over the message's memory.
func (a *aliased) hold(m *message) {
	if checkAliases && m.owner != nil {
		own := batchio.NewBuffer(len(m.data))
		copy(own.Data, m.data)
		m.owner.Release()
		m.data, m.owner = own.Data, own
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case m.owner == nil:
	case a.ended:
		m.owner.Abandon()
	default:
		a.owner = m.owner
	}
	m.owner = nil
}

// release lets the last message's memory be used again.
func (a *aliased) release() {
	a.mu.Lock()
	owner := a.owner
	a.owner = nil
	a.mu.Unlock()
	switch {
	case owner == nil:
	case checkAliases:
		for i := range owner.Data {
			owner.Data[i] = released
		}
		owner.Abandon()
	default:
		owner.Release()
	}
}

// end gives up the last message's memory.
func (a *aliased) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.owner != nil {
		a.owner.Abandon()
		a.owner = nil
	}
}

// checkAliases shows who uses a message after its time: its memory is then filled with
// the byte released, and nothing else ever stands there. Under the race detector, which
// then reports the use, it is set too.
var checkAliases = os.Getenv(aliasVariable) == "check"

const (
	aliasVariable = "FASTGRPC_ALIAS"
	released      = 0xdb
)

// minAliasedField is the length from which a bytes field is aliased. For shorter ones,
// the copy that package proto makes costs less than reflection.
const minAliasedField = 1 << 10

// unmarshalAliased unmarshals data into m, with long bytes fields pointing into data.
// Package proto has no option for that, so it sets those fields by reflection, also in
// nested messages, and passes the other fields to package proto.
func unmarshalAliased(data []byte, m proto.Message) error {
	if len(data) < minAliasedField {
		return proto.Unmarshal(data, m)
	}
	proto.Reset(m)
	if err := mergeAliased(data, m.ProtoReflect(), protowire.DefaultRecursionLimit); err != nil {
		return err
	}
	return proto.CheckInitialized(m)
}

var errTooDeep = errors.New("message is nested too deeply")

// mergeAliased limits the nesting to depth, as package proto does. Without the limit,
// a short but deeply nested message could use a stack of any size.
func mergeAliased(data []byte, m protoreflect.Message, depth int) error {
	if depth <= 0 {
		return errTooDeep
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
