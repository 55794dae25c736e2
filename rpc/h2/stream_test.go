package h2

import (
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A slow stream is found however many others have come and gone. Without slow streams, the
// table keeps no more memory than its ring.
func TestSlowStreamsAreFound(t *testing.T) {
	var table streamTable
	slow := []*Stream{{id: 1}, {id: 3}}
	for _, s := range slow {
		table.put(s)
	}
	others := make([]Stream, 100)
	id := uint32(5)
	for range 100 {
		for i := range others {
			others[i] = Stream{id: id}
			table.put(&others[i])
			id += 2
		}
		for i := range others {
			if s := table.get(others[i].id); s != &others[i] {
				t.Fatalf("stream %d is not found", others[i].id)
			}
			table.remove(&others[i])
			if s := table.get(others[i].id); s != nil {
				t.Fatalf("stream %d is found after its end", others[i].id)
			}
		}
	}
	for _, s := range slow {
		if table.get(s.id) != s {
			t.Errorf("slow stream %d is not found", s.id)
		}
		table.remove(s)
	}
	if table.n != 0 || table.older != nil || len(table.ring) > maxRing {
		t.Errorf("%d streams and a map of %d are left, the ring has %d places", table.n, len(table.older), len(table.ring))
	}
}

// A client opens no stream beyond the last identifier that it uses.
func TestIdentifiersEnd(t *testing.T) {
	cfg := testConfig
	cfg.Client, cfg.FirstStream = true, lastStream-1
	r := newRecorder(cfg)
	if !r.conn.Usable() {
		t.Fatal("the last identifier cannot be used")
	}
	r.conn.Open(new(Stream))
	if r.conn.Usable() || r.conn.FreeSlots() > 0 {
		t.Error("a stream can be opened beyond the last identifier")
	}
}

// The owner of a stream with AnyLength gets answers of any length, as that to HEAD.
func TestAnyLength(t *testing.T) {
	for _, anyLength := range []bool{false, true} {
		cfg := testConfig
		cfg.Client = true
		r := newRecorder(cfg)
		s := &Stream{AnyLength: anyLength}
		r.conn.Open(s)
		r.conn.SendTrailers(s, requestRun, nil)
		if all := frames(t, r.take()[len(http2.ClientPreface):]); !all[len(all)-1].Flags.Has(http2.FlagHeadersEndStream) {
			t.Errorf("a request without content does not end with its header: %+v", all)
		}
		block := append([]byte{0x88}, appendLiteral(nil, hpack.HeaderField{Name: "content-length", Value: "5"})...)
		in := append(frame(http2.FrameSettings, 0, 0), frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1, block...)...)
		if _, err := r.conn.Feed(0, in, 10); err != nil {
			t.Fatal(err)
		}
		want := "reset 1 PROTOCOL_ERROR"
		if anyLength {
			want = "headers 1 2 fields end=true"
		}
		if len(r.events) != 1 || r.events[0] != want {
			t.Errorf("any length %v: %q, want %q", anyLength, r.events, want)
		}
	}
}
