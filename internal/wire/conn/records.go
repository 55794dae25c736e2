package conn

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Records counts the TLS records and QUIC frames of a dialer's connections. Counting slows every
// read and write: use it only for calls that are not timed.
type Records struct {
	mu     sync.Mutex
	counts RecordCounts
	frames Frames
}

// RecordCounts holds numbers of TLS 1.3 records and handshakes.
type RecordCounts struct {
	// Handshakes is the number of finished handshakes. The next two fields count their bytes.
	Handshakes             int64
	HandshakeSentBytes     int64
	HandshakeReceivedBytes int64
	// Sent and Received count the records after the handshakes.
	Sent, Received int64
}

// RecordBytes is the size that TLS 1.3 adds to the content of a record: the header, the content
// type and the AEAD's tag (RFC 8446, section 5.2). crypto/tls does not pad records.
const RecordBytes = 5 + 1 + 16

// Counts returns the counts so far.
func (r *Records) Counts() RecordCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Since subtracts an earlier count.
func (c RecordCounts) Since(earlier RecordCounts) RecordCounts {
	return RecordCounts{
		Handshakes:             c.Handshakes - earlier.Handshakes,
		HandshakeSentBytes:     c.HandshakeSentBytes - earlier.HandshakeSentBytes,
		HandshakeReceivedBytes: c.HandshakeReceivedBytes - earlier.HandshakeReceivedBytes,
		Sent:                   c.Sent - earlier.Sent,
		Received:               c.Received - earlier.Received,
	}
}

// recordConn counts the records of all reads and writes. It hides the methods that bypass Read and
// Write.
type recordConn struct {
	net.Conn
	records        *Records
	sent, received recordParser
	handshakeDone  bool
}

func (c *recordConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	c.received.parse(b[:n], c.countReceived)
	return n, err
}

func (c *recordConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	c.sent.parse(b[:n], c.countSent)
	return n, err
}

// ReadFrom implements io.ReaderFrom, which net/http's client uses.
func (c *recordConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

func (c *recordConn) countReceived(r tlsRecord) {
	if c.handshakeDone {
		c.records.counts.Received++
		return
	}
	c.records.counts.HandshakeReceivedBytes += r.wireBytes()
}

// countSent counts a record to the peer. The client's first encrypted record ends the
// handshake: it is the Finished message, since the client has no certificate.
func (c *recordConn) countSent(r tlsRecord) {
	if c.handshakeDone {
		c.records.counts.Sent++
		return
	}
	c.records.counts.HandshakeSentBytes += r.wireBytes()
	if r.kind == applicationData {
		c.handshakeDone = true
		c.records.counts.Handshakes++
	}
}

// tlsRecord is a record's header (RFC 8446, section 5.1).
type tlsRecord struct {
	kind        byte
	lengthBytes int // length of the rest of the record after the header
}

const (
	recordHeaderBytes = 5
	applicationData   = 23
)

func (r tlsRecord) wireBytes() int64 { return int64(recordHeaderBytes + r.lengthBytes) }

// recordParser finds TLS records in a byte stream that arrives in pieces.
type recordParser struct {
	header [recordHeaderBytes]byte
	have   int // number of header bytes received so far
	left   int // number of body bytes still to come
}

// parse calls found with each record, as soon as the record's header is complete.
func (p *recordParser) parse(b []byte, found func(tlsRecord)) {
	for len(b) > 0 {
		if p.left > 0 {
			n := min(p.left, len(b))
			p.left -= n
			b = b[n:]
			continue
		}
		n := copy(p.header[p.have:], b)
		p.have += n
		b = b[n:]
		if p.have < recordHeaderBytes {
			return
		}
		p.have = 0
		p.left = int(binary.BigEndian.Uint16(p.header[3:]))
		found(tlsRecord{kind: p.header[0], lengthBytes: p.left})
	}
}

// Frames counts the frames of QUIC packets, and decodes all of them: use it only for calls that
// are not timed. Any goroutine may use it; the zero value is ready.
type Frames struct {
	mu     sync.Mutex
	counts FrameCounts
}

// FrameCounts holds the frame counts of both directions.
type FrameCounts struct{ Sent, Received FrameBytes }

// FrameBytes holds the frame counts of one direction.
type FrameBytes struct {
	Stream int64 // bytes in STREAM frames, which carry everything that HTTP/3 sends
	// Acks counts the bytes of packets that hold only acknowledgements. AckPackets counts these
	// packets.
	Acks, AckPackets int64
	// Probes counts the bytes of path MTU probes (RFC 9000, section 14.4), which a connection sends
	// during its first calls. ProbePackets counts the probes.
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

// Close does nothing: one connection has ended, but others may still use the Frames.
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

// minMTUBytes is the packet size that every path can carry. A larger packet of PING frames is a
// path MTU probe.
const minMTUBytes = 1200

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
	case pings == len(frames) && packetBytes > minMTUBytes:
		b.Probes += packetBytes
		b.ProbePackets++
	}
}
