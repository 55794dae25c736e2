package h2

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// BenchmarkClientCall measures what a unary call costs a client's state machine, with
// batches of 50 calls.
func BenchmarkClientCall(b *testing.B) {
	const batch = 50
	cfg := testConfig
	cfg.Client, cfg.StreamWindow, cfg.ConnWindow = true, maxWindow, maxWindow
	h := &discarder{recorder: newRecorder(cfg)}
	h.conn.handler = h
	if _, err := h.conn.Feed(0, frame(http2.FrameSettings, 0, 0), 10); err != nil {
		b.Fatal(err)
	}
	header := append([]byte{0x88}, appendLiteral(nil, hpack.HeaderField{Name: "content-type", Value: "application/grpc"})...)
	answer := bytes.Join([][]byte{
		frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, header...),
		frame(http2.FrameData, 0, 1, make([]byte, 69)...),
		frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1, appendLiteral(nil, trailerRun.Fields[0])...),
	}, nil)
	streams, body := make([]Stream, batch), make([]byte, 69)
	var answers []byte
	b.ReportAllocs()
	for calls := 1; b.Loop(); calls++ {
		s := &streams[calls%batch]
		*s = Stream{}
		h.conn.Open(s)
		h.conn.SendHeaders(s, requestRun, nil)
		h.conn.SendData(s, batchio.Payload{Data: body}, true)
		at := len(answers)
		answers = append(answers, answer...)
		for at < len(answers) {
			header := ParseFrameHeader(answers[at:])
			header.StreamID = s.id
			AppendFrameHeader(answers[:at], header)
			at += FrameHeaderLen + header.Length
		}
		if calls%batch > 0 {
			continue
		}
		h.conn.TakeOutput().Recycle()
		if n, err := h.conn.Feed(0, answers, 3*batch); n != len(answers) || err != nil || h.conn.OpenStreams() > 0 {
			b.Fatal(n, err)
		}
		answers = answers[:0]
		h.conn.sendWindow = maxWindow // the benchmark does not measure its updates
	}
}

// discarder is a Handler that keeps nothing.
type discarder struct{ *recorder }

func (d *discarder) OnHeaders(*Stream, *Block, bool) {}

func (d *discarder) OnData(s *Stream, data []byte, _ bool) { d.conn.Consume(s, len(data)) }
