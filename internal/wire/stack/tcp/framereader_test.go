package tcp

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// TestAnnouncedLengthDoesNotAllocate checks that memory follows what a peer has
// sent and not the length that it announced.
func TestAnnouncedLengthDoesNotAllocate(t *testing.T) {
	const claimed = 15 << 20
	source := &doubting{t: t, rest: make([]byte, claimed/2)}
	in := newFrameReader(source, &parser{server: true, stage: atPlainBody, length: claimed}, false)
	if _, err := in.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a message ended with %v", err)
	}
	if source.most < claimed/2 {
		t.Errorf("at most %d bytes were read, of %d", source.most, claimed/2)
	}
}

// doubting returns its bytes, and checks how much memory Read was given for them.
type doubting struct {
	t       testing.TB
	rest    []byte
	arrived int
	most    int
}

func (d *doubting) Read(p []byte) (int, error) {
	d.most = max(d.most, d.arrived+cap(p))
	if limit := max(firstAllocationBytes, maxGrowth*d.arrived); d.arrived+cap(p) > limit {
		d.t.Errorf("%d bytes have arrived and %d are allocated, more than %d", d.arrived, d.arrived+cap(p), limit)
	}
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.rest)
	d.rest, d.arrived = d.rest[n:], d.arrived+n
	return n, nil
}

func TestFrameReaderJoinsPieces(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), firstAllocationBytes/8)
	want := &echopb.Payload{Data: body}
	for _, pooled := range []bool{false, true} {
		frame := must(appendFrame(nil, kindPlain, want))
		p := newServerParser()
		in := newFrameReader(&slow{rest: append(frame, frame...)}, &p, pooled)
		for range 2 {
			if ev, err := in.next(); err != nil || ev.kind != callBegins {
				t.Fatal(ev, err)
			}
			ev, err := in.next()
			if err != nil {
				t.Fatal(err)
			}
			var got echopb.Payload
			if err := unmarshal(ev.body, &got); err != nil || !proto.Equal(&got, want) {
				t.Errorf("pooled=%v: the pieces do not join: %v", pooled, err)
			}
			in.buffers.put(ev.body)
		}
	}
}

// slow returns at most 1000 bytes a read.
type slow struct{ rest []byte }

func (s *slow) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 1000)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
