package conn

import (
	"sync"

	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Frames counts the frames in the packets of QUIC connections. It decodes every
// packet, so use it only for calls that are not timed. Goroutines may use it
// concurrently; the zero value is ready.
type Frames struct {
	mu     sync.Mutex
	counts FrameCounts
}

// FrameCounts holds the counts of both directions.
type FrameCounts struct{ Sent, Received FrameBytes }

// FrameBytes holds the counts of one direction.
type FrameBytes struct {
	Stream int64 // content of STREAM frames: everything that HTTP/3 sends
	// Packets with nothing but acknowledgements.
	Acks, AckPackets int64
	// Path MTU probes (RFC 9000, section 14.4). A connection sends them during
	// its first calls.
	Probes, ProbePackets int64
}

// Counts returns the counts so far.
func (f *Frames) Counts() FrameCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// AddProducer implements qlogwriter.Trace.
func (f *Frames) AddProducer() qlogwriter.Recorder { return f }

// Close implements qlogwriter.Recorder. It does nothing: a connection has ended,
// and others may go on.
func (f *Frames) Close() error { return nil }

// RecordEvent implements qlogwriter.Recorder.
func (f *Frames) RecordEvent(event qlogwriter.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case qlog.PacketSent:
		f.counts.Sent.add(e.Frames, int64(e.Raw.Length))
	case qlog.PacketReceived:
		f.counts.Received.add(e.Frames, int64(e.Raw.Length))
	}
}

// leastProbeBytes is the packet size that every path carries: larger pings are
// probes.
const leastProbeBytes = 1200

func (b *FrameBytes) add(frames []qlog.Frame, packetBytes int64) {
	acks, pings := 0, 0
	for _, frame := range frames {
		switch f := frame.Frame.(type) {
		case *qlog.StreamFrame:
			b.Stream += f.Length
		case *qlog.AckFrame:
			acks++
		case *qlog.PingFrame:
			pings++
		}
	}
	switch {
	case len(frames) == 0:
	case acks == len(frames):
		b.Acks += packetBytes
		b.AckPackets++
	case pings == len(frames) && packetBytes > leastProbeBytes:
		b.Probes += packetBytes
		b.ProbePackets++
	}
}
