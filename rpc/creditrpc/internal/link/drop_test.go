package link

import (
	"bytes"
	"encoding/binary"
	"testing"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// claim returns a frame with the first byte of a message that claims to have this length.
func claim(kind frame.FrameType, stream uint32, length int) []byte {
	var payload []byte
	if kind == frame.Request {
		payload = []byte{0, 0, 0}
	}
	payload = append(binary.AppendUvarint(payload, uint64(length)), 'x')
	return one(kind, frame.Long|frame.More, stream, string(payload))
}

// feedAll feeds frames to a link, whose output is dropped.
func feedAll(t *testing.T, l *Link, frames ...[]byte) {
	t.Helper()
	for _, wire := range frames {
		if used, err := l.Feed(0, wire, 10); err != nil || used != len(wire) {
			t.Fatalf("%d of %d bytes are read: %v", used, len(wire), err)
		}
		l.TakeOutput().Recycle()
	}
}

// TestCancelledMessagesDoNotWaitForRoom has one message take all room, and another one wait for room.
// Others ask for room and are cancelled: they leave nothing behind.
func TestCancelledMessagesDoNotWaitForRoom(t *testing.T) {
	l := greeted(t, false)
	const all = 1 << 20 // cfg.Room
	feedAll(t, l, claim(frame.Data, 1, all), claim(frame.Request, 2, all))
	for id := uint32(3); id < 100; id++ {
		feedAll(t, l, claim(frame.Request, id, all))
		s := l.streams[id]
		if !s.waits {
			t.Fatalf("message %d does not wait for room", id)
		}
		feedAll(t, l, one(frame.Cancel, 0, id, ""))
		l.Release(s)
		if n := len(l.waitingForRoom); n != 1 {
			t.Fatalf("%d messages wait, and all but 1 were cancelled", n)
		}
	}
}

// TestCancelledMessageLetsOthersThrough cancels a long message that waits for room. There is room for
// the message behind it.
func TestCancelledMessageLetsOthersThrough(t *testing.T) {
	l := greeted(t, false)
	const tenth = 1 << 20 / 10
	feedAll(t, l, claim(frame.Data, 1, 5*tenth), claim(frame.Request, 2, 2*tenth), claim(frame.Request, 3, 10*tenth), claim(frame.Request, 4, 4*tenth))
	feedAll(t, l, one(frame.Cancel, 0, 2, ""))
	long, short := l.streams[3], l.streams[4]
	if !long.waits || !short.waits {
		t.Fatalf("the long message waits: %v; the short one waits: %v; want both", long.waits, short.waits)
	}
	feedAll(t, l, one(frame.Cancel, 0, 3, ""))
	if short.waits {
		t.Error("the short message still waits")
	}
}

// TestWholeMessagesDoNotWaitForRoom has a stream's credit be enough for messages that ask for room.
func TestWholeMessagesDoNotWaitForRoom(t *testing.T) {
	l := greeted(t, false)
	feedAll(t, l, claim(frame.Request, 2, 1<<20)) // takes all room
	const length = credit.MinWindow/2 + 1
	reader := l.handler.(*end)
	for range 50 {
		feedAll(t, l, claim(frame.Data, 1, length))
		if !l.streams[1].waits {
			t.Fatal("the message needs no room, so the test is wrong")
		}
		feedAll(t, l, one(frame.Data, frame.More, 1, string(make([]byte, length-1000))), one(frame.Data, 0, 1, string(make([]byte, 999))))
		if n := len(l.waitingForRoom); n > 0 {
			t.Fatalf("%d messages wait, and all are whole", n)
		}
		if !reader.read(reader.calls[0]) {
			t.Fatal("no message has come")
		}
	}
}

// A wipedPayload is a payload's owner that overwrites the payload when its last reference is released.
type wipedPayload struct {
	data           []byte
	refs, released int
}

func (p *wipedPayload) Retain() { p.refs++ }

func (p *wipedPayload) Release() {
	if p.refs--; p.refs == 0 {
		p.released++
		clear(p.data)
	}
}

func newWiped(length int) *wipedPayload {
	return &wipedPayload{data: bytes.Repeat([]byte("x"), length), refs: 1}
}

// count returns the number of x bytes in an output.
func count(o *batchio.Output) (n int) {
	for _, segment := range o.Segments() {
		n += bytes.Count(segment, []byte("x"))
	}
	return n
}

// TestPayloadsOfCancelledCalls cancels calls whose answers wait, while no output is written. An answer
// is released at once, unless an output refers to it: then it must stay as it is until that output
// has been written.
func TestPayloadsOfCancelledCalls(t *testing.T) {
	const reference = 8 << 10
	begun := func(sent int) (l *Link, answer *wipedPayload) {
		l = greeted(t, false)
		l.cfg.MinReference = reference
		feedAll(t, l, one(frame.Request, frame.End|frame.Nothing, 2, "\x00\x00\x00"))
		s := l.streams[2]
		l.sender = credit.NewSender(credit.Cost(sent+3), 0) // 3 bytes for the answer's length
		s.send.Accept(credit.Cost(sent + 3))
		answer = newWiped(100_000)
		l.Send(s, batchio.Payload{Data: answer.data, Owner: answer}, true)
		if left := len(s.queue[0].left); left != len(answer.data)-sent {
			t.Fatalf("%d bytes of the answer are left, want all but %d", left, sent)
		}
		return l, answer
	}
	cancel := func(l *Link) {
		if _, err := l.Feed(0, one(frame.Cancel, 0, 2, ""), 1); err != nil {
			t.Fatal(err)
		}
	}

	for _, sent := range []int{1, reference - 1} { // parts that are copied into the output
		l, answer := begun(sent)
		cancel(l)
		if answer.released != 1 {
			t.Errorf("%d bytes copied: the answer was released %d times, want 1", sent, answer.released)
		}
		if n := count(l.out); n != sent {
			t.Errorf("%d bytes copied: %d of them are in the output", sent, n)
		}
	}

	l, answer := begun(reference) // the output that is filled refers to it
	cancel(l)
	if n := count(l.out); answer.released != 0 || n != reference {
		t.Errorf("the answer was released %d times before it was written; %d bytes of %d are left", answer.released, n, reference)
	}
	l.TakeOutput().Recycle()
	if answer.released != 1 {
		t.Errorf("the answer was released %d times after it was written, want 1", answer.released)
	}

	l, answer = begun(reference) // the output that is written refers to it
	writing := l.TakeOutput()
	cancel(l)
	if n := count(writing); answer.released != 0 || n != reference {
		t.Errorf("the answer was released %d times while it was written; %d bytes of %d are left", answer.released, n, reference)
	}
	writing.Recycle()
	l.Close()
	if answer.released != 1 {
		t.Errorf("the answer was released %d times after the end, want 1", answer.released)
	}
}

// TestQueuedAnswersOfCancelledCallsAreReleased has a client cancel calls for as long as it likes, and
// read nothing.
func TestQueuedAnswersOfCancelledCallsAreReleased(t *testing.T) {
	l := greeted(t, false)
	l.cfg.MinReference = 8 << 10
	l.sender = credit.NewSender(0, 0) // no answer can be sent
	var answers []*wipedPayload
	for id := uint32(2); id < 100; id++ {
		if _, err := l.Feed(0, one(frame.Request, frame.End|frame.Nothing, id, "\x00\x00\x00"), 1); err != nil {
			t.Fatal(err)
		}
		s, answer := l.streams[id], newWiped(100)
		answers = append(answers, answer)
		l.Send(s, batchio.Payload{Data: answer.data, Owner: answer}, true)
		l.Release(s)
		if _, err := l.Feed(0, one(frame.Cancel, 0, id, ""), 1); err != nil {
			t.Fatal(err)
		}
	}
	for i, answer := range answers {
		if answer.released != 1 {
			t.Fatalf("answer %d was released %d times, want 1", i, answer.released)
		}
	}
}
