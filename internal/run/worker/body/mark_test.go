package body

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime/trace"
	"slices"
	"testing"

	exptrace "golang.org/x/exp/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe/gotrace"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// A loopConn hands each request to a handler's registrar, as a server would receive it.
type loopConn struct {
	grpc.ClientConnInterface
	inMetadata bool
	handled    []proto.Message
}

func (c *loopConn) Invoke(ctx context.Context, _ string, args, _ any, _ ...grpc.CallOption) error {
	sent, err := proto.Marshal(args.(proto.Message))
	if err != nil {
		return err
	}
	received := &echopb.Payload{}
	if err := proto.Unmarshal(sent, received); err != nil {
		return err
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	endRegion(beginHandler(metadata.NewIncomingContext(context.Background(), md), received, c.inMetadata))
	c.handled = append(c.handled, received)
	return nil
}

// everyOther chooses every other call.
type everyOther int

func (e *everyOther) Choose() (call int, chosen bool) {
	*e++
	return 4094 + int(*e), *e%2 == 0
}

// TestMarks: a marked call and its handler are regions of one name, and neither the caller nor the handler
// finds the mark in the message.
func TestMarks(t *testing.T) {
	for _, inMetadata := range []bool{false, true} {
		own := protowire.AppendVarint(protowire.AppendTag(nil, 77, protowire.VarintType), 5)
		request := &echopb.Payload{Id: 3, Data: []byte("abc")}
		request.ProtoReflect().SetUnknown(own)
		want := proto.Clone(request)
		conn := &loopConn{inMetadata: inMetadata}
		marker := &callMarker{ClientConnInterface: conn, chooser: new(everyOther), inMetadata: inMetadata}
		call := func() {
			region := marker.begin()
			if err := marker.Invoke(t.Context(), "/echo", request, nil); err != nil {
				t.Fatal(err)
			}
			endRegion(region)
		}
		var traced bytes.Buffer
		if err := trace.Start(&traced); err != nil {
			t.Fatal(err)
		}
		const calls = 3
		for range 2 * calls {
			call()
		}
		trace.Stop()
		for _, got := range append(conn.handled, request) {
			if !proto.Equal(got, want) {
				t.Errorf("in metadata %v: the message is %v, want %v", inMetadata, got, want)
			}
		}
		if regions := regionsIn(t, &traced); len(regions) != 2*calls || regions[0] != regions[1] || regions[1] == regions[2] {
			t.Errorf("in metadata %v: the regions are %q, want pairs of one name", inMetadata, regions)
		}
	}
}

func regionsIn(t *testing.T, traced io.Reader) (names []string) {
	t.Helper()
	events, err := exptrace.NewReader(traced)
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := events.ReadEvent()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind() == exptrace.EventRegionBegin {
			names = append(names, e.Region().Type)
		}
	}
}

// TestInstantsOfAllTheLoad: a worker that traces itself keeps calls of the whole load evenly; others keep
// the last ones.
func TestInstantsOfAllTheLoad(t *testing.T) {
	const calls = 1000
	for traces, want := range map[bool]struct{ first, step int64 }{true: {0, 16}, false: {calls - 64, 1}} {
		spec := task{Spec: worker.Spec{Probe: record.ProbeLife, Traces: traces}}
		recorder := spec.newInstantRecorder(worker.MaxInstants) // each caller keeps 64
		for i := range int64(calls) {
			if !recorder.skips() {
				recorder.addCall(i, i+5)
			}
		}
		kept := recorder.allCalls()
		if len(kept) < 32 || len(kept) > 64 {
			t.Errorf("with traces %v, %d calls are kept, want 32 to 64", traces, len(kept))
		}
		for i, got := range kept {
			if want := [2]int64{want.first + int64(i)*want.step, 5}; got != want {
				t.Errorf("with traces %v, call %d that is kept is %v, want %v", traces, i, got, want)
			}
		}
		if last := kept[len(kept)-1][0]; last < calls-16 {
			t.Errorf("with traces %v, the last call that is kept is %d of %d", traces, last, calls)
		}
	}
}

// FuzzMark takes marks from messages with fields of any content.
func FuzzMark(f *testing.F) {
	mark := protowire.AppendVarint(protowire.AppendTag(nil, markField, protowire.VarintType), 4095)
	f.Add(mark, uint16(4095))
	f.Add(append(slices.Clone(mark), 8, 1), uint16(3))
	f.Add(mark[:3], uint16(0))
	f.Fuzz(func(t *testing.T, fields []byte, call uint16) {
		request := &echopb.Payload{}
		request.ProtoReflect().SetUnknown(fields)
		if number, marked := takeMark(request); marked && (number < 0 || number >= gotrace.MaxInFlight || !bytes.HasSuffix(fields, request.ProtoReflect().GetUnknown())) {
			t.Errorf("%x has the mark %d and leaves %x", fields, number, request.ProtoReflect().GetUnknown())
		}
		// A mark before any other fields is found, and only the mark is removed.
		request.ProtoReflect().SetUnknown(append(protowire.AppendVarint(protowire.AppendTag(nil, markField, protowire.VarintType), uint64(call)), fields...))
		number, marked := takeMark(request)
		if left := request.ProtoReflect().GetUnknown(); !marked || number != int(call)%gotrace.MaxInFlight || !bytes.Equal(left, fields) {
			t.Errorf("the mark %d before %x is %d, %v, and leaves %x", call, fields, number, marked, left)
		}
	})
}
