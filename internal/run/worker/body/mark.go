package body

import (
	"context"
	"runtime/trace"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/machine/probe/gotrace"
)

// While a worker traces itself, chosen calls and their handlers are regions of the same number. The
// number travels with the request: in a field of the message that no schema has, which costs the
// least, or in metadata if the call is a stream or the stack's messages keep no such field.
const (
	markKey   = "wirelab-call"
	markField = protowire.MaxValidNumber
)

// A callMarker marks calls of one caller, and is the connection on which the caller makes them. nil
// marks none.
type callMarker struct {
	grpc.ClientConnInterface // nil if the server is not wirelab's own
	chooser                  // of all callers
	inMetadata               bool
	// call is the number of the call in progress if it is marked.
	call   int
	marked bool
}

// newServiceMarker returns the marker of a caller of a user's service, which gets no marks.
func (s *task) newServiceMarker(marks *gotrace.Sampler) *callMarker {
	if !s.Traces {
		return nil
	}
	return &callMarker{chooser: marks}
}

// A chooser chooses the calls that are marked.
type chooser interface {
	Choose() (call int, chosen bool)
}

// begin begins the region of the caller's next call if the call is chosen. The caller must end it.
func (m *callMarker) begin() *trace.Region {
	if m == nil {
		return nil
	}
	if m.call, m.marked = m.Choose(); !m.marked {
		return nil
	}
	return gotrace.BeginRegion(m.call)
}

func endRegion(r *trace.Region) {
	if r != nil {
		r.End()
	}
}

// Invoke makes a call, whose request has the number of a marked call.
func (m *callMarker) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if message, is := args.(proto.Message); m.marked && is && !m.inMetadata {
		reflected := message.ProtoReflect()
		own := reflected.GetUnknown()
		mark := protowire.AppendTag(nil, markField, protowire.VarintType)
		reflected.SetUnknown(append(protowire.AppendVarint(mark, uint64(m.call)), own...))
		defer reflected.SetUnknown(own)
		return m.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	return m.ClientConnInterface.Invoke(m.markMetadata(ctx), method, args, reply, opts...)
}

// NewStream opens a stream, whose metadata has the number of a marked call.
func (m *callMarker) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return m.ClientConnInterface.NewStream(m.markMetadata(ctx), desc, method, opts...)
}

func (m *callMarker) markMetadata(ctx context.Context) context.Context {
	if !m.marked {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, markKey, strconv.Itoa(m.call))
}

// takeMark removes the mark from a request that has one. It is the first of the fields without schema.
func takeMark(request any) (call int, marked bool) {
	message, is := request.(proto.Message)
	if !is {
		return 0, false
	}
	reflected := message.ProtoReflect()
	unknown := reflected.GetUnknown()
	number, kind, head := protowire.ConsumeTag(unknown)
	if head < 0 || number != markField || kind != protowire.VarintType {
		return 0, false
	}
	value, size := protowire.ConsumeVarint(unknown[head:])
	if size < 0 {
		return 0, false
	}
	reflected.SetUnknown(unknown[head+size:])
	return int(value % gotrace.MaxInFlight), true
}

// beginHandler begins the region of a handler, or returns nil if the call has no mark. The request of
// a stream is nil.
func beginHandler(ctx context.Context, request any, inMetadata bool) *trace.Region {
	if !trace.IsEnabled() {
		return nil
	}
	if call, marked := takeMark(request); marked {
		return gotrace.BeginRegion(call)
	}
	if request != nil && !inMetadata {
		return nil
	}
	if values := metadata.ValueFromIncomingContext(ctx, markKey); len(values) == 1 {
		if call, err := strconv.ParseUint(values[0], 10, 31); err == nil {
			return gotrace.BeginRegion(int(call))
		}
	}
	return nil
}
