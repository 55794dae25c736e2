package conn

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// Records counts the TLS records of a dialer's connections, and the frames of its
// QUIC connections. It adds cost to every read and write, so do not use it for calls
// that are timed.
type Records struct {
	mu     sync.Mutex
	counts RecordCounts
	frames Frames
}

// RecordCounts holds counts of TLS 1.3 records.
type RecordCounts struct {
	// Handshakes counts finished handshakes, with the bytes up to their end.
	Handshakes             int64
	HandshakeSentBytes     int64
	HandshakeReceivedBytes int64
	// Sent and Received count the records after the handshake.
	Sent, Received int64
}

// RecordBytes is the size that TLS 1.3 adds to the content of a record: header, content
// type and the AEAD's tag (RFC 8446, section 5.2). crypto/tls does not pad.
const RecordBytes = 5 + 1 + 16

// Frames returns the counter for the frames of an HTTP/3 client, or nil if frames are not
// counted.
func (d *Dialer) Frames() *Frames {
	if d.Records == nil {
		return nil
	}
	return &d.Records.frames
}

// Counts returns the counts so far.
func (r *Records) Counts() RecordCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Since returns the difference to an earlier count.
func (c RecordCounts) Since(earlier RecordCounts) RecordCounts {
	return RecordCounts{
		Handshakes:             c.Handshakes - earlier.Handshakes,
		HandshakeSentBytes:     c.HandshakeSentBytes - earlier.HandshakeSentBytes,
		HandshakeReceivedBytes: c.HandshakeReceivedBytes - earlier.HandshakeReceivedBytes,
		Sent:                   c.Sent - earlier.Sent,
		Received:               c.Received - earlier.Received,
	}
}

// recordConn counts the records in every byte that is read or written. It hides a
// TCP connection's ways around Read and Write, such as sendfile.
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
	c.received.feed(b[:n], c.countReceived)
	return n, err
}

func (c *recordConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	c.sent.feed(b[:n], c.countSent)
	return n, err
}

// ReadFrom implements io.ReaderFrom, which net/http's client uses.
func (c *recordConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// countReceived counts a record from the peer.
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
	lengthBytes int // after the header
}

const (
	recordHeaderBytes = 5
	applicationData   = 23
)

func (r tlsRecord) wireBytes() int64 { return int64(recordHeaderBytes + r.lengthBytes) }

// recordParser finds the records in a stream that arrives in pieces.
type recordParser struct {
	header [recordHeaderBytes]byte
	have   int // of the header
	left   int // of the record's body
}

// feed calls found for each record when its header is complete.
func (p *recordParser) feed(b []byte, found func(tlsRecord)) {
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
