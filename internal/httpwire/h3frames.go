package httpwire

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Frames counts what is in the packets of QUIC connections. Every packet is
// looked at, so it is for calls that are looked at and not for those that are
// timed. Any goroutine may use it; the zero value is ready.
type Frames struct {
	mu     sync.Mutex
	counts FrameCounts
}

// FrameCounts are both directions.
type FrameCounts struct{ Sent, Received FrameBytes }

// FrameBytes is one direction.
type FrameBytes struct {
	Stream int64 // content of STREAM frames, of all that HTTP/3 says
	// Packets of nothing but acknowledgements.
	Acks, AckPackets int64
	// Packets that try whether larger ones arrive (RFC 9000, section 14.4):
	// they are a connection's, and come in its first calls.
	Probes, ProbePackets int64
}

// FrameWatcher is an optional ability of a Dialer that wants frames counted; nil
// where it does not.
type FrameWatcher interface{ Frames() *Frames }

// Counts returns what was counted so far.
func (f *Frames) Counts() FrameCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// watch has the connections of a configuration counted where the dialer wants
// it.
func watch(config *quic.Config, dialer Dialer) {
	watcher, can := dialer.(FrameWatcher)
	if !can || watcher.Frames() == nil {
		return
	}
	frames := watcher.Frames()
	config.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return frames }
}

// AddProducer implements qlogwriter.Trace.
func (f *Frames) AddProducer() qlogwriter.Recorder { return f }

// Close implements qlogwriter.Recorder. A connection has ended; others go on.
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

// leastProbeBytes is what every path carries, so that only more is a probe.
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
