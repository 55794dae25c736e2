package lab

import (
	"fmt"
	"testing"

	"wirelab.dev/internal/data/record"
)

// What a trial's two ends held and sent comes into its record.
func TestBothEndsCostsAreRecorded(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "tcp")
	s.Parts[0].Load.Requests = 2000
	despiteNoise(t, func() error {
		r := runOne(t, newLab(t), s)
		wantCosts(t, r)
		return trafficOf(r)
	})
}

func wantCosts(t *testing.T, r *record.Record) {
	t.Helper()
	for side, p := range map[string]record.Process{"client": r.Client, "server": r.Server} {
		for what, figure := range map[string]struct {
			got   *int64
			least int64
		}{
			"resident memory": {p.RSSBytes, 1 << 20},
			"peak memory":     {p.PeakBytes, 1 << 20},
			"threads":         {p.Threads, 2},
			"sockets":         {p.Sockets, 4}, // the connections of four clients
			"goroutines":      {p.Goroutines, 4},
			"heap":            {p.HeapBytes, 1 << 10},
		} {
			if figure.got == nil || *figure.got < figure.least {
				t.Errorf("the %s's %s: %v, want at least %d", side, what, figure.got, figure.least)
			}
		}
		if p.RSSBytes != nil && p.PeakBytes != nil && *p.PeakBytes < *p.RSSBytes {
			t.Errorf("the %s held %d bytes at the end, at most %d", side, *p.RSSBytes, *p.PeakBytes)
		}
	}
	if r.Traffic == nil || r.Traffic.SpanNS <= 0 || r.Traffic.RTTNS == nil || *r.Traffic.RTTNS <= 0 {
		t.Fatalf("traffic: %+v", r.Traffic)
	}
}

// trafficOf holds the bytes and packets of the whole trial against the requests
// that it had if it was as fast outside of the window as in it.
func trafficOf(r *record.Record) error {
	// A message is 64 bytes of payload and some 20 of fields and framing.
	requests := float64(r.Completed) / float64(r.WindowNS) * float64(r.Traffic.SpanNS)
	for way, bytes := range map[string]int64{"sent": r.Traffic.SentBytes, "received": r.Traffic.ReceivedBytes} {
		if each := float64(bytes) / requests; each < 70 || each > 110 {
			return fmt.Errorf("%.1f bytes per request were %s, want 70 to 110", each, way)
		}
	}
	if packets := float64(*r.Traffic.SentPackets-*r.Traffic.SentPureAcks) / requests; packets < 0.8 || packets > 1.2 {
		return fmt.Errorf("%.2f packets with payload a request, want one", packets)
	}
	return nil
}

// A payload of 64 bytes is a message of 78: two tags and lengths, an id of one
// byte, a time of nine.
const echoBytes = 78

// layersOf measures a variant once and returns what a call put on the wire.
func layersOf(t *testing.T, variant string) *record.Wire {
	t.Helper()
	r := runOne(t, newLab(t), oneCell(t, variant))
	if r.Wire == nil {
		t.Fatalf("%s: the wire is not known: %q", variant, r.Warnings)
	}
	return r.Wire
}

func TestLayersOfPlainFraming(t *testing.T) {
	takesSeconds(t)
	const frame, packet = 4, 52 // IPv4, TCP, timestamps
	w := layersOf(t, "tcp")
	for way, b := range map[string]record.WireBytes{"request": w.Request, "response": w.Response} {
		if b.MessageBytes != echoBytes || b.ProtocolBytes != frame || *b.SecurityBytes != 0 || *b.TransportBytes != packet {
			t.Errorf("the %s: %v of message, %v of framing, %v of security, %v of packets; want %d, %d, 0, %d",
				way, b.MessageBytes, b.ProtocolBytes, *b.SecurityBytes, *b.TransportBytes, echoBytes, frame, packet)
		}
	}
	despiteNoise(t, func() error { // an answer that comes late is not waited for
		w := layersOf(t, "tcp")
		if most := max(*w.Request.AckBytes, *w.Response.AckBytes); most > packet/2 {
			return fmt.Errorf("acknowledgements took %v bytes, though answers carry them", most)
		}
		return nil
	})
	if w.HandshakeSentBytes != 0 || w.FirstSentBytes != w.Request.PayloadBytes() {
		t.Errorf("%v bytes of handshakes, %v of a first call, on a wire without either", w.HandshakeSentBytes, w.FirstSentBytes)
	}
}

func TestLayersOverTLS(t *testing.T) {
	takesSeconds(t)
	full, resumed := layersOf(t, "tcp:tls=on,conn=new"), layersOf(t, "tcp:tls=on,conn=resumed")
	for way, b := range map[string]record.WireBytes{"request": full.Request, "response": full.Response} {
		if b.MessageBytes != echoBytes || b.ProtocolBytes != 4 || *b.SecurityBytes != 22 {
			t.Errorf("the %s: %v of message, %v of framing, %v of TLS; want %d, 4, 22", way, b.MessageBytes, b.ProtocolBytes, *b.SecurityBytes, echoBytes)
		}
	}
	// A resumed handshake shows no certificate, and sends the ticket instead.
	if full.HandshakeReceivedBytes < resumed.HandshakeReceivedBytes+200 || resumed.HandshakeSentBytes < full.HandshakeSentBytes+100 {
		t.Errorf("a full handshake sends %v and receives %v, a resumed one %v and %v",
			full.HandshakeSentBytes, full.HandshakeReceivedBytes, resumed.HandshakeSentBytes, resumed.HandshakeReceivedBytes)
	}
}

func TestLayersOfHeaders(t *testing.T) {
	takesSeconds(t)
	w := layersOf(t, "grpc:tls=on")
	// Two frames and gRPC's prefix are 23 bytes; HPACK leaves little of the
	// fields once it has learnt them.
	if p := w.Request.ProtocolBytes; w.Request.MessageBytes != echoBytes || p < 23 || p > 120 {
		t.Errorf("%v bytes of message, %v of headers and framing", w.Request.MessageBytes, p)
	}
	if w.FirstSentBytes < w.Request.PayloadBytes()+10 {
		t.Errorf("a first request of %v bytes, later ones of %v: HPACK learnt nothing", w.FirstSentBytes, w.Request.PayloadBytes())
	}
}

func TestLayersOverQUIC(t *testing.T) {
	takesSeconds(t)
	full, resumed := layersOf(t, "h3"), layersOf(t, "h3:conn=resumed")
	for way, b := range map[string]record.WireBytes{"request": full.Request, "response": full.Response} {
		// Of QUIC, a packet has a header of some 8 bytes, a tag of 16, and the
		// heads of its frames.
		if b.MessageBytes != echoBytes || b.ProtocolBytes < 20 || b.ProtocolBytes > 200 || *b.SecurityBytes < 20 || *b.SecurityBytes > 100 {
			t.Errorf("the %s: %v of message, %v of headers and framing, %v of QUIC", way, b.MessageBytes, b.ProtocolBytes, *b.SecurityBytes)
		}
	}
	if full.Request.ProtocolBytes != resumed.Request.ProtocolBytes {
		t.Errorf("headers and framing of %v bytes, and of %v where the session was resumed", full.Request.ProtocolBytes, resumed.Request.ProtocolBytes)
	}
	if resumed.HandshakeReceivedBytes > full.HandshakeReceivedBytes-200 {
		t.Errorf("a full handshake receives %v bytes, a resumed one %v: no certificate was saved", full.HandshakeReceivedBytes, resumed.HandshakeReceivedBytes)
	}
}
