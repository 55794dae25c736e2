package rest

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// FuzzReadFrame reads a stream of anything.
func FuzzReadFrame(f *testing.F) {
	for _, bodies := range [][]string{{}, {""}, {"one"}, {"", "two", "three"}} {
		stream := []byte{}
		for _, body := range bodies {
			frame, err := protobuf.frameOf(&testpb.TestRequest{Body: []byte(body)})
			if err != nil {
				f.Fatal(err)
			}
			stream = append(stream, frame...)
		}
		f.Add(stream)
		f.Add(append(stream, 0, 0, 1))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		rest := stream
		for {
			message, err := protobuf.readFrame(r)
			if err != nil {
				if errors.Is(err, io.EOF) != (len(rest) == 0) {
					t.Fatalf("%v with %d bytes left", err, len(rest))
				}
				return
			}
			rest = rest[frameHeaderBytes:]
			if !bytes.HasPrefix(rest, message) {
				t.Fatalf("%q is not what comes next in %q", message, rest)
			}
			rest = rest[len(message):]
		}
	})
}

func TestFrame(t *testing.T) {
	want := &testpb.TestRequest{Body: []byte("ab")}
	frame, err := protobuf.frameOf(want)
	if err != nil || !bytes.Equal(frame, []byte{0, 0, 0, 4, 1<<3 | 2, 2, 'a', 'b'}) {
		t.Fatalf("the frame is %v, %v", frame, err)
	}
	message, err := protobuf.readFrame(bytes.NewReader(frame))
	var got testpb.TestRequest
	if err != nil || proto.Unmarshal(message, &got) != nil || !proto.Equal(&got, want) {
		t.Errorf("%v came back as %v, %v", want, &got, err)
	}
}

func TestReadFrameAllocatesWhatArrives(t *testing.T) {
	claim := []byte{0x00, 0xff, 0xff, 0xff, 'a', 'b'} // 16 MiB less one
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := protobuf.readFrame(bytes.NewReader(claim))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	const plenty = 1 << 20
	if spent := after.TotalAlloc - before.TotalAlloc; spent > plenty {
		t.Errorf("two bytes of sixteen million made it allocate %d", spent)
	}
	if _, err := protobuf.readFrame(bytes.NewReader([]byte{0xff, 0, 0, 0})); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an oversize length was answered with %v", err)
	}
}
