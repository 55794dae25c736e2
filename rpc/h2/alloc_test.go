package h2

import (
	"testing"

	"golang.org/x/net/http2"

	"wirelab.dev/rpc/batchio"
)

// TestFramesAllocateNothing checks that after the first calls a Conn allocates nothing
// for frames in either direction. The Handler provides the stream.
func TestFramesAllocateNothing(t *testing.T) {
	r := newServer(t, testConfig)
	id := uint32(1)
	in := open(id, 0)
	in = append(in, frame(http2.FrameData, http2.FlagDataEndStream, id, make([]byte, 64)...)...)
	body := make([]byte, 64)
	var stream Stream
	fixed := &single{recorder: r, stream: &stream}
	r.conn.handler = fixed
	call := func() {
		stream = Stream{}
		for i := 0; i < len(in); i += FrameHeaderLen + ParseFrameHeader(in[i:]).Length {
			in[i+6], in[i+7], in[i+8] = byte(id>>16), byte(id>>8), byte(id)
		}
		if _, err := r.conn.Feed(0, in, 10); err != nil {
			t.Fatal(err)
		}
		r.conn.SendHeaders(&stream, responseRun, nil)
		r.conn.SendData(&stream, batchio.Payload{Data: body}, false)
		r.conn.SendTrailers(&stream, trailerRun, nil)
		r.conn.Release(&stream)
		written := r.conn.TakeOutput()
		written.Segments()
		written.Recycle()
		id += 2
	}
	// The request's fields are literals, so they cost their strings.
	const literals = 2 * 4
	if n := testing.AllocsPerRun(1000, call) - literals; n > 0 {
		t.Errorf("%.1f allocations a call beyond the fields' strings", n)
	}
}

// single is a Handler that reuses one stream for all calls.
type single struct {
	*recorder
	stream *Stream
}

func (s *single) OnOpen() *Stream { return s.stream }

func (s *single) OnHeaders(*Stream, *Block, bool) {}

func (s *single) OnData(hs *Stream, data []byte, _ bool) { s.conn.Consume(hs, len(data)) }
