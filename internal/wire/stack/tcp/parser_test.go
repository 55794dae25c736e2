package tcp

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

var (
	samplePayload = &echopb.Payload{Id: 1, Data: []byte("hi")}
	sampleHead    = callHead{
		method: "/wirelab.echo.v1.EchoService/Echo", timeout: time.Second,
		metadata: metadata.MD{"key": {"one", "", "two"}},
	}
	sampleStatus = status.New(codes.NotFound, "no such thing")
)

// must panics where a sample cannot be encoded.
func must(frame []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return frame
}

// walk feeds data to the parser and passes its events to see, until the parser
// fails or data ends.
func walk(t *testing.T, p *parser, data []byte, see func(event)) {
	t.Helper()
	for {
		sizeBytes, isBody := p.nextSize()
		if limit := stack.MaxMessageBytes; sizeBytes < 0 || sizeBytes > limit || !isBody && sizeBytes > frameHeadBytes {
			t.Fatalf("the parser wants %d bytes, of a body: %v", sizeBytes, isBody)
		}
		if sizeBytes > len(data) {
			return
		}
		ev, err := p.parse(data[:sizeBytes])
		if err != nil {
			if code := status.Code(err); code != codes.Internal && code != codes.ResourceExhausted {
				t.Fatalf("the parser fails with %v", err)
			}
			return
		}
		data = data[sizeBytes:]
		if ev.kind != noEvent {
			see(ev)
		}
	}
}

// FuzzServer checks that the events of any input come in a valid order, and that a
// head that can be parsed can be encoded again.
func FuzzServer(f *testing.F) {
	plain := must(appendFrame(nil, kindPlain, samplePayload))
	f.Add(append(plain, plain...))
	call := must(appendCall(nil, sampleHead))
	call = appendHalfClose(must(appendFrame(call, kindMessage, samplePayload)))
	f.Add(call)
	f.Add(append(call, plain...))
	f.Add(appendHalfClose(must(appendCall(nil, callHead{method: "/a/B"}))))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := end
		p := newServerParser()
		walk(t, &p, data, func(ev event) {
			if !mayFollow(before, ev.kind) {
				t.Fatalf("%d follows %d", ev.kind, before)
			}
			before = ev.kind
			if ev.kind == head {
				checkHeadRoundTrip(t, ev.body)
			}
		})
	})
}

func mayFollow(before, next eventKind) bool {
	switch next {
	case callBegins:
		return before == end || before == plainMessage
	case plainMessage, head:
		return before == callBegins
	case message, end:
		return before == head || before == message
	default:
		return false
	}
}

func checkHeadRoundTrip(t *testing.T, body []byte) {
	t.Helper()
	read, err := parseCall(body)
	if err != nil {
		return
	}
	frame, err := appendCall(nil, read)
	if err != nil {
		return // the lower-case form of a key may be longer
	}
	again, err := parseCall(frame[lengthBytes+frameHeadBytes:])
	if err != nil || again.method != read.method || again.timeout != read.timeout || len(again.metadata) != len(read.metadata) {
		t.Fatalf("%+v came back as %+v, %v", read, again, err)
	}
}

// FuzzClient checks the same for answers. The first byte chooses the framing.
func FuzzClient(f *testing.F) {
	const inPlain, inFrames = 0, 1
	f.Add(append([]byte{inPlain}, must(appendFrame(nil, kindPlain, samplePayload))...))
	f.Add(appendPlainFailure([]byte{inPlain}, sampleStatus))
	answer := must(appendHead([]byte{inFrames}, sampleHead.metadata))
	answer = must(appendFrame(answer, kindMessage, samplePayload))
	f.Add(appendEnd(answer, nil, sampleHead.metadata))
	f.Add(appendEnd([]byte{inFrames}, sampleStatus, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		var p parser
		if data[0] == inPlain {
			p.beginAnswer(atStart, stack.MaxMessageBytes)
		} else {
			p.beginAnswer(atFrame, stack.MaxMessageBytes)
		}
		walk(t, &p, data[1:], func(ev event) {
			switch ev.kind {
			case plainMessage, message:
			case plainFailure:
				if s, err := parseStatus(ev.body); err == nil && s.Code() == codes.OK {
					t.Fatal("a failure is OK")
				}
			case head:
				_, _ = parseMetadata(ev.body)
			case end:
				checkEndRoundTrip(t, ev.body)
			default:
				t.Fatalf("an answer has the event %d", ev.kind)
			}
		})
	})
}

func checkEndRoundTrip(t *testing.T, body []byte) {
	t.Helper()
	read, trailer, err := parseEnd(body)
	if err != nil {
		return
	}
	again, trailerAgain, err := parseEnd(appendEnd(nil, read, trailer)[frameHeadBytes:])
	if err != nil {
		t.Fatal(err)
	}
	if again.Code() == codes.ResourceExhausted && read.Code() != again.Code() {
		return // the lower-case form of a key may be longer
	}
	if again.Code() != read.Code() || len(trailerAgain) != len(trailer) {
		t.Fatalf("%v %v came back as %v %v", read, trailer, again, trailerAgain)
	}
}

func TestStatusIsAlwaysSent(t *testing.T) {
	for name, s := range map[string]*status.Status{
		"no text":  status.New(codes.Aborted, "bad \xff byte"),
		"too long": status.New(codes.Aborted, string(bytes.Repeat([]byte("ß"), maxHeadBytes))),
	} {
		got, _, err := parseEnd(appendEnd(nil, s, nil)[frameHeadBytes:])
		if err != nil || got.Code() != codes.Aborted || got.Message() == "" {
			t.Errorf("%s: arrived as %.50v, %v", name, got, err)
		}
	}
	huge := metadata.MD{"key": {string(make([]byte, maxHeadBytes))}}
	got, _, err := parseEnd(appendEnd(nil, nil, huge)[frameHeadBytes:])
	if err != nil || got.Code() != codes.ResourceExhausted {
		t.Errorf("a trailer that is too large: %v, %v", got, err)
	}
}
