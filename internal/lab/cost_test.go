package lab

import (
	"testing"

	"wirelab.dev/internal/record"
)

// What a trial's two ends held and sent comes into its record.
func TestBothEndsCostsAreRecorded(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "tcp")
	s.Parts[0].Load.Requests = 2000
	r := runOne(t, newLab(t), s)
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
	// A message is 64 bytes of payload and some 20 of fields and framing.
	requests := float64(r.Completed) / float64(r.WindowNS) * float64(r.Traffic.SpanNS)
	for way, bytes := range map[string]int64{"sent": r.Traffic.SentBytes, "received": r.Traffic.ReceivedBytes} {
		if each := float64(bytes) / requests; each < 70 || each > 110 {
			t.Errorf("%.1f bytes a request were %s, want 70 to 110", each, way)
		}
	}
	if packets := float64(*r.Traffic.SentPackets-*r.Traffic.SentPureAcks) / requests; packets < 0.8 || packets > 1.2 {
		t.Errorf("%.2f packets with payload a request, want one", packets)
	}
}
