package body

import (
	"context"
	"runtime/trace"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/machine/probe/gotrace"
	"wirelab.dev/internal/wire/stack"
)

// While a worker traces itself, a call and its handler are regions of the same name. The name
// travels with the request: in metadata, or in a field of the message that no schema has, if the
// stack cannot carry metadata or would use other frames for it.
const (
	markKey   = "wirelab-call"
	markField = protowire.MaxValidNumber
)

type contextMark struct{} // key of a context

// markNames holds the names of regions. More calls must not be in flight at a time.
var markNames = func() (names [gotrace.MaxInFlight]string) {
	for i := range names {
		names[i] = gotrace.CallRegion + strconv.Itoa(i)
	}
	return names
}()

// A callMarker marks calls while this process traces itself: all calls, or every nth of many.
type callMarker struct {
	calls atomic.Uint64
	// skipped is the number of calls between two marks, less one.
	skipped atomic.Uint64
	in      markPlace
}

// maxMarks is the number of marks after which a marker marks half as many of the next calls. A mark
// takes about as long as a fast call.
const maxMarks = 4096

// A markPlace is the part of a request that has the call's name.
type markPlace int

const (
	markInMetadata markPlace = iota
	markInMessage
	markNowhere // the server is not wirelab's own
)

func markPlaceOf(own stack.Info) markPlace {
	if own.MarksInMessage {
		return markInMessage
	}
	return markInMetadata
}

// begin begins the region of a call. The caller must end it.
func (m *callMarker) begin(ctx context.Context) (context.Context, *trace.Region) {
	if !trace.IsEnabled() {
		return ctx, nil
	}
	call, every := m.calls.Add(1), m.skipped.Load()+1
	if call%every != 0 {
		return ctx, nil
	}
	if call/every > maxMarks && m.calls.CompareAndSwap(call, 0) {
		m.skipped.Store(2*every - 1)
	}
	name := markNames[call/every%gotrace.MaxInFlight]
	region := trace.StartRegion(ctx, name)
	switch m.in {
	case markInMetadata:
		ctx = metadata.AppendToOutgoingContext(ctx, markKey, name)
	case markInMessage:
		ctx = context.WithValue(ctx, contextMark{}, name)
	}
	return ctx, region
}

func endRegion(r *trace.Region) {
	if r != nil {
		r.End()
	}
}

// A messageMarker puts the name of a call into its request.
type messageMarker struct{ grpc.ClientConnInterface }

// Invoke makes a call, whose request has the name of the call's region.
func (m messageMarker) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if name, marked := ctx.Value(contextMark{}).(string); marked {
		if message, is := args.(proto.Message); is {
			field := protowire.AppendTag(nil, markField, protowire.BytesType)
			message.ProtoReflect().SetUnknown(protowire.AppendString(field, name))
			defer message.ProtoReflect().SetUnknown(nil)
		}
	}
	return m.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// beginHandler begins the region of a handler, or returns nil if the call has no mark.
func beginHandler(ctx context.Context, request any) *trace.Region {
	if !trace.IsEnabled() {
		return nil
	}
	if md, _ := metadata.FromIncomingContext(ctx); len(md[markKey]) == 1 {
		return trace.StartRegion(ctx, md[markKey][0])
	}
	if message, is := request.(proto.Message); is {
		unknown := message.ProtoReflect().GetUnknown()
		if number, kind, n := protowire.ConsumeTag(unknown); n > 0 && number == markField && kind == protowire.BytesType {
			if name, n := protowire.ConsumeString(unknown[n:]); n > 0 {
				return trace.StartRegion(ctx, name)
			}
		}
	}
	return nil
}
