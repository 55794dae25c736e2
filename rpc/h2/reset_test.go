package h2

import (
	"bytes"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"wirelab.dev/rpc/batchio"
)

const longPayload = 1 << 20 // bytes

// newPayload returns a long payload of one byte's value.
func newPayload(value byte) batchio.Payload {
	b := batchio.NewBuffer(longPayload)
	copy(b.Data, bytes.Repeat([]byte{value}, longPayload))
	return batchio.Payload{Data: b.Data, Owner: b}
}

// countBuffers returns the number of buffers in use.
func countBuffers(t *testing.T) *atomic.Int64 {
	buffers := new(atomic.Int64)
	batchio.CountBuffers(buffers)
	t.Cleanup(func() { batchio.CountBuffers(nil) })
	return buffers
}

// mostReferenced is the largest number of payloads to which one output refers.
var mostReferenced = int64(testConfig.OutputLimit/testConfig.MinReferenceLen + 1)

// openWindows lets an end send any length.
func openWindows(t *testing.T, r *recorder) {
	t.Helper()
	feed(t, r, frame(http2.FrameWindowUpdate, 0, 0, 0x7f, 0, 0, 0))
	feed(t, r, settingsFrame(http2.SettingInitialWindowSize, maxWindow))
}

func reset(id uint32) []byte {
	return frame(http2.FrameRSTStream, 0, id, 0, 0, 0, byte(http2.ErrCodeCancel))
}

// TestResetAnswersAreFreed has a client that takes nothing. It resets its calls, whose answers are
// queued, and makes more calls.
func TestResetAnswersAreFreed(t *testing.T) {
	buffers := countBuffers(t)
	r := newServer(t, testConfig)
	openWindows(t, r)
	for i := range 200 {
		id := uint32(2*i + 1)
		feed(t, r, open(id, http2.FlagHeadersEndStream))
		s := r.streams[i]
		r.conn.SendHeaders(s, responseRun, nil)
		r.conn.SendData(s, newPayload(1), false)
		r.conn.SendTrailers(s, trailerRun, nil)
		r.conn.Release(s)
		feed(t, r, reset(id))
		if n := r.conn.queued; n != 0 {
			t.Fatalf("%d bytes count as queued after the reset", n)
		}
	}
	wantFreed(t, r, buffers)
}

// TestResetRequestsAreFreed has a server that takes nothing. The client's callers give up.
func TestResetRequestsAreFreed(t *testing.T) {
	buffers := countBuffers(t)
	r := newClient(t)
	openWindows(t, r)
	for range 200 {
		s := new(Stream)
		r.conn.Open(s)
		r.conn.SendHeaders(s, requestRun, nil)
		r.conn.SendData(s, newPayload(1), true)
		r.conn.Reset(s, http2.ErrCodeCancel)
	}
	wantFreed(t, r, buffers)
}

// wantFreed checks that only the output keeps messages of reset streams, until it is taken.
func wantFreed(t *testing.T, r *recorder, buffers *atomic.Int64) {
	t.Helper()
	if n := buffers.Load(); n > mostReferenced {
		t.Errorf("%d messages are kept, want at most %d", n, mostReferenced)
	}
	r.take()
	if n := buffers.Load(); n != 0 {
		t.Errorf("%d messages are kept after the output was taken", n)
	}
}

// TestOutputsKeepTheirPayloads resets a stream in the middle of its payload. One output with parts
// of the payload is being written, and another waits.
func TestOutputsKeepTheirPayloads(t *testing.T) {
	buffers := countBuffers(t)
	r := newServer(t, testConfig)
	openWindows(t, r)
	feed(t, r, open(1, http2.FlagHeadersEndStream))
	s := r.streams[0]
	r.conn.SendHeaders(s, responseRun, nil)
	r.conn.SendData(s, newPayload(1), false)
	r.conn.SendData(s, newPayload(2), false)
	r.conn.SendTrailers(s, trailerRun, nil)
	first := r.conn.TakeOutput() // which fills the next output
	feed(t, r, reset(1))
	r.conn.Release(s)
	if n := buffers.Load(); n != 1 {
		t.Fatalf("%d payloads are kept after the reset, want 1: the one that was sent in part", n)
	}
	for i, out := range []*batchio.Output{first, r.conn.TakeOutput()} {
		for range 4 { // would use the memory again
			newPayload(3).Release()
		}
		content := 0
		for rest := bytes.Join(out.Segments(), nil); len(rest) > 0; {
			h := ParseFrameHeader(rest)
			if h.Type == http2.FrameData {
				content += h.Length
				if got := rest[FrameHeaderLen:][:h.Length]; !bytes.Equal(got, bytes.Repeat([]byte{1}, h.Length)) {
					t.Fatalf("output %d holds bytes of another payload", i)
				}
			}
			rest = rest[FrameHeaderLen+h.Length:]
		}
		if content == 0 {
			t.Errorf("output %d holds no content", i)
		}
		out.Recycle()
		if n := buffers.Load(); n != int64(1-i) {
			t.Errorf("after output %d, %d payloads are kept, want %d", i, n, 1-i)
		}
	}
}

// TestCopiedPayloadsAreFreed sends the rest of a payload that is shorter than MinReferenceLen. The
// output holds a copy of the rest.
func TestCopiedPayloadsAreFreed(t *testing.T) {
	buffers := countBuffers(t)
	r := newServer(t, testConfig)
	feed(t, r, frame(http2.FrameWindowUpdate, 0, 0, 0x7f, 0, 0, 0))
	feed(t, r, settingsFrame(http2.SettingInitialWindowSize, longPayload-1))
	feed(t, r, open(1, http2.FlagHeadersEndStream))
	s := r.streams[0]
	r.conn.SendHeaders(s, responseRun, nil)
	r.conn.SendData(s, newPayload(1), false)
	for len(r.take()) > 0 {
	}
	if n := buffers.Load(); n != 1 {
		t.Fatalf("%d payloads are kept, want 1", n)
	}
	feed(t, r, frame(http2.FrameWindowUpdate, 0, 1, 0, 0, 0, 1))
	if n, waiting := buffers.Load(), r.conn.Pending(); n != 0 || waiting != FrameHeaderLen+1 {
		t.Errorf("%d payloads are kept, and %d bytes wait; want 0, and a frame of one byte", n, waiting)
	}
}
