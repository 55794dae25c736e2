package http2

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/internal/base/failure"
)

// conversation is what a machine with a few calls makes of a server's bytes.
func conversation(kind Kind, input []byte, piece int) string {
	m := New(Config{Kind: kind})
	defer m.Close()
	fields := []Field{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/"}}
	short, long := NewRequest(fields, []byte("body")), NewRequest(fields, make([]byte, 200_000))
	var streams []*Stream
	for i := range 4 {
		s := &Stream{}
		streams = append(streams, s)
		r := short
		if i == 3 {
			r = long
		}
		if err := m.Start(s, r); err != nil {
			panic(err)
		}
	}
	var said bytes.Buffer
	var failed error
	for from, to := 0, 0; failed == nil && (to < len(input) || to == 0); {
		to = min(len(input), to+piece)
		for {
			used, err := m.Feed(0, input[from:to], 64)
			from += used
			if failed = err; used == 0 || err != nil {
				break
			}
		}
		if len(input) == 0 {
			break
		}
	}
	if m.Pending() > 0 {
		out := m.TakeOutput()
		for _, segment := range out.Segments() {
			said.Write(segment)
		}
		out.Recycle()
	}
	text := fmt.Sprintf("%v %v %x", failure.Of(failed), m.Closing(), said.Bytes())
	open := 0
	for _, s := range streams {
		if s.state == waiting || s.state >= running {
			open++
		}
		text += fmt.Sprintf("\n%d %d %q %d %d %v", s.state, s.Status, s.Message, s.Bytes, s.Messages, s.Err)
	}
	if ended := len(m.TakeEnded(nil)); ended+open != len(streams) {
		panic(fmt.Sprintf("%d streams are open and %d have ended, of %d", open, ended, len(streams)))
	}
	return text
}

// served is what a plain server says.
func served(kind Kind) []byte {
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
	if kind == GRPC {
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
	for kind, want := range map[Kind][]string{
		HTTP: {"0 200 \"\" 5 0 <nil>", "0 204 \"\" 0 0 <nil>", "INTERNAL_ERROR", "REFUSED_STREAM"},
		GRPC: {"0 0 \"\" 2 2 <nil>", "0 7 \"no way\" 0 0 <nil>", "INTERNAL_ERROR", "REFUSED_STREAM"},
	} {
		input := served(kind)
		whole := conversation(kind, input, len(input))
		for i, line := range bytes.Split([]byte(whole), []byte("\n"))[1:] {
			if !bytes.Contains(line, []byte(want[i])) {
				t.Errorf("kind %d, stream %d: %s, want %s", kind, i, line, want[i])
			}
		}
		for piece := 1; piece < len(input); piece++ {
			if got := conversation(kind, input, piece); got != whole {
				t.Fatalf("in pieces of %d: %s\nwhole: %s", piece, got, whole)
			}
		}
	}
}

func FuzzMachine(f *testing.F) {
	for _, kind := range []Kind{HTTP, GRPC} {
		f.Add(served(kind), kind == GRPC, uint16(5))
	}
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false, uint16(5))
	f.Fuzz(func(t *testing.T, input []byte, grpc bool, piece uint16) {
		kind := HTTP
		if grpc {
			kind = GRPC
		}
		whole := conversation(kind, input, len(input)+1)
		if split := conversation(kind, input, int(piece)%128+1); split != whole {
			t.Errorf("split: %s\nwhole: %s", split, whole)
		}
	})
}

// The cache of blocks gives what the decoder would, whatever came before.
func FuzzDecoder(f *testing.F) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	_ = encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = encoder.WriteField(hpack.HeaderField{Name: "grpc-status", Value: "13"})
	f.Add([]byte{0x88}, block.Bytes(), []byte{0x88, 0xbe})
	f.Add([]byte{0x08, 0x03, '2', '0', '1'}, []byte{0x20}, []byte{0xff, 0x00})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		cached, plain := newDecoder(), newDecoder()
		for _, block := range [][]byte{a, b, a, c, a, b, c, a} {
			got, err := cached.decode(block)
			for i := range plain.cached {
				plain.cached[i] = cachedBlock{}
			}
			want, wantErr := plain.decode(block)
			if (err == nil) != (wantErr == nil) || err == nil && *got != *want {
				t.Fatalf("block %x: %+v, %v; without a cache %+v, %v", block, got, err, want, wantErr)
			}
			if err != nil {
				return
			}
		}
	})
}

// A slow call's place is left out, and the table grows with the calls.
func TestNumbersGoRound(t *testing.T) {
	m := New(Config{})
	r := NewRequest([]Field{{Name: ":path", Value: "/"}}, nil)
	slow := &Stream{}
	if err := m.Start(slow, r); err != nil {
		t.Fatal(err)
	}
	others := make([]Stream, 100)
	for range 1000 {
		for i := range others {
			if err := m.Start(&others[i], r); err != nil {
				t.Fatal(err)
			}
		}
		for i := range others {
			if s := m.find(others[i].id); s != &others[i] {
				t.Fatalf("stream %d is not found", others[i].id)
			}
			m.close(&others[i], nil)
		}
		m.TakeEnded(nil)
		m.TakeOutput().Recycle()
	}
	if m.find(slow.id) != slow || len(m.table) > 256 {
		t.Errorf("the slow call is lost, or %d places are too many", len(m.table))
	}
	m.nextID = lastID + 2
	if err := m.Start(&others[0], r); err != ErrNotSent || !m.Closing() { //nolint:errorlint // itself
		t.Errorf("beyond the last number: %v", err)
	}
}
