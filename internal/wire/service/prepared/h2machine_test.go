package prepared

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/rpc/h2"
)

// idleConn returns a connection whose goroutines have not been started, so that a test can
// feed its machine.
func idleConn(t testing.TB) (*h2Conn, fedMachine) {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	c := newH2Conn(client, 1)
	return c, fedMachine{c.machine, c}
}

// encodeTest encodes a request with a body of some length.
func encodeTest(t testing.TB, grpc bool, length int) *h2Request {
	t.Helper()
	definition := &service.Definition{Authority: "test.example"}
	encode, request := encodeHTTP2, &service.Request{Method: "POST", Path: "/", Body: make([]byte, length)}
	if grpc {
		encode, request = encodeGRPC, &service.Request{Path: "/test/Echo", Messages: [][]byte{make([]byte, length)}}
	}
	encoded, err := encode(definition, request)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// conversation feeds a server's bytes in pieces to a connection with four calls. It
// describes what the connection made of them.
func conversation(t testing.TB, grpc bool, input []byte, piece int) string {
	c, m := idleConn(t)
	defer m.Close()
	var streams []*h2Stream
	short, long := encodeTest(t, grpc, 4), encodeTest(t, grpc, 200_000)
	for _, request := range []*h2Request{short, short, short, long} {
		s := &h2Stream{done: make(chan struct{}, 1)}
		streams = append(streams, s)
		if err := c.start(s, request); err != nil {
			t.Fatal(err)
		}
	}
	var failed error
	for from, to := 0, 0; failed == nil && to < len(input); {
		to = min(len(input), to+piece)
		for used := 1; used > 0 && failed == nil; from += used {
			used, failed = m.Feed(0, input[from:to], 64)
			c.StreamsChanged()
			c.StartCalls()
		}
	}
	var said bytes.Buffer
	if m.Pending() > 0 {
		out := m.TakeOutput()
		for _, segment := range out.Segments() {
			said.Write(segment)
		}
		out.Recycle()
	}
	text := fmt.Sprintf("%v %v %x", failure.Of(failed), m.Usable(), said.Bytes())
	for _, s := range streams {
		if ended := len(s.done) > 0; ended == s.stream.Open() {
			t.Fatalf("stream %d: open %v, and ended %v", s.stream.ID(), !ended, ended)
		}
		text += fmt.Sprintf("\n%v %d %q %d %d %v", s.stream.Open(), s.status, s.message, s.bytes, s.messages, s.err)
	}
	return text
}

// served returns the bytes of a plain server.
func served(grpc bool) []byte {
	var out, block bytes.Buffer
	framer, encoder := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
	header := func(id uint32, end bool, fields ...string) {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		p := http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes()[:1], EndStream: end, PadLength: 3}
		_ = framer.WriteHeaders(p)
		_ = framer.WriteContinuation(id, true, block.Bytes()[1:])
	}
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100_000})
	_ = framer.WriteSettingsAck()
	_ = framer.WriteWindowUpdate(0, 1<<20)
	if grpc {
		header(1, false, ":status", "200", "content-type", "application/grpc")
		_ = framer.WriteDataPadded(1, false, []byte("\x00\x00\x00\x00\x02hi\x00\x00\x00"), []byte{0, 0})
		_ = framer.WriteData(1, false, []byte("\x00\x00"))
		header(1, true, "grpc-status", "0")
		header(3, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "7", "grpc-message", "no%20way")
	} else {
		header(1, false, ":status", "103")
		header(1, false, ":status", "200", "content-length", "5")
		_ = framer.WriteData(1, true, []byte("hello"))
		header(3, true, ":status", "204")
	}
	_ = framer.WritePing(false, [8]byte{1})
	_ = framer.WriteRSTStream(5, http2.ErrCodeInternal)
	_ = framer.WriteGoAway(5, http2.ErrCodeNo, []byte("bye"))
	return out.Bytes()
}

func TestConversation(t *testing.T) {
	for grpc, want := range map[bool][]string{
		false: {"false 200 \"\" 5 0 <nil>", "false 204 \"\" 0 0 <nil>", "INTERNAL_ERROR", "REFUSED_STREAM"},
		true:  {"false 0 \"\" 2 2 <nil>", "false 7 \"no way\" 0 0 <nil>", "INTERNAL_ERROR", "REFUSED_STREAM"},
	} {
		input := served(grpc)
		whole := conversation(t, grpc, input, len(input))
		for i, line := range bytes.Split([]byte(whole), []byte("\n"))[1:] {
			if !bytes.Contains(line, []byte(want[i])) {
				t.Errorf("gRPC %v, stream %d: %s, want %s", grpc, i, line, want[i])
			}
		}
		for piece := 1; piece < len(input); piece++ {
			if got := conversation(t, grpc, input, piece); got != whole {
				t.Fatalf("in pieces of %d: %s\nwhole: %s", piece, got, whole)
			}
		}
	}
}

func FuzzMachine(f *testing.F) {
	f.Add(served(false), false, uint16(5))
	f.Add(served(true), true, uint16(5))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false, uint16(5))
	f.Fuzz(func(t *testing.T, input []byte, grpc bool, piece uint16) {
		whole := conversation(t, grpc, input, len(input)+1)
		if split := conversation(t, grpc, input, int(piece)%128+1); split != whole {
			t.Errorf("split: %s\nwhole: %s", split, whole)
		}
	})
}

// BenchmarkMachine measures what a call costs above batchio, with batches of 50 calls.
func BenchmarkMachine(b *testing.B) {
	const batch = 50
	c, m := idleConn(b)
	request := encodeTest(b, true, 64)
	hello := h2.AppendFrameHeader(nil, h2.FrameHeader{Type: http2.FrameSettings})
	if _, err := m.Feed(0, hello, 1); err != nil {
		b.Fatal(err)
	}
	answer := cheapAnswer(true, 64)
	streams := make([]h2Stream, batch)
	for i := range streams {
		streams[i].done = make(chan struct{}, 1)
	}
	var answers []byte
	b.ReportAllocs()
	for calls := 1; b.Loop(); calls++ {
		s := &streams[calls%batch]
		if err := c.start(s, request); err != nil {
			b.Fatal(err)
		}
		at := len(answers)
		for answers = append(answers, answer...); at < len(answers); {
			f := h2.ParseFrameHeader(answers[at:])
			f.StreamID = s.stream.ID()
			h2.AppendFrameHeader(answers[:at], f)
			at += h2.FrameHeaderLen + f.Length
		}
		if calls%batch > 0 {
			continue
		}
		m.TakeOutput().Recycle()
		answers = h2.AppendFrameHeader(answers, h2.FrameHeader{Length: 4, Type: http2.FrameWindowUpdate})
		answers = append(answers, 0, 0, 69*batch>>8, 69*batch&0xff)
		if n, err := m.Feed(0, answers, 4*batch); n != len(answers) || err != nil || m.OpenStreams() > 0 {
			b.Fatal(n, err)
		}
		for _, s := range c.fedEnded {
			if s.err != nil || s.messages != 1 {
				b.Fatal(s.err)
			}
		}
		c.fedEnded, answers = c.fedEnded[:0], answers[:0]
	}
}
