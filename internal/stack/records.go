package stack

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"wirelab.dev/internal/httpwire"
)

// Records counts the TLS records of a dialer's connections, as they lie on the
// wire, and the frames of QUIC's. That costs every read and write, so it is for
// calls that are looked at and not for those that are timed.
type Records struct {
	mu     sync.Mutex
	counts RecordCounts
	frames httpwire.Frames
}

// RecordCounts are records of TLS 1.3.
type RecordCounts struct {
	// Handshakes are those that clients finished, and the bytes that went until
	// then.
	Handshakes             int64
	HandshakeSentBytes     int64
	HandshakeReceivedBytes int64
	// Sent and Received are the records that came after.
	Sent, Received int64
}

// RecordBytes is what TLS 1.3 adds to the content of a record: header, content
// type and the AEAD's tag (RFC 8446, section 5.2). crypto/tls does not pad.
const RecordBytes = 5 + 1 + 16

// Frames is where an HTTP/3 client counts the frames of its connections; nil
// where nothing is to be counted.
func (d *Dialer) Frames() *httpwire.Frames {
	if d.Records == nil {
		return nil
	}
	return &d.Records.frames
}

var (
	_ httpwire.FrameWatcher = (*Dialer)(nil)
	_ httpwire.QUICObserver = (*Dialer)(nil)
)

// Counts returns what was counted so far.
func (r *Records) Counts() RecordCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Since is what came after an earlier count.
func (c RecordCounts) Since(earlier RecordCounts) RecordCounts {
	return RecordCounts{
		Handshakes:             c.Handshakes - earlier.Handshakes,
		HandshakeSentBytes:     c.HandshakeSentBytes - earlier.HandshakeSentBytes,
		HandshakeReceivedBytes: c.HandshakeReceivedBytes - earlier.HandshakeReceivedBytes,
		Sent:                   c.Sent - earlier.Sent,
		Received:               c.Received - earlier.Received,
	}
}

// recordConn shows its home every byte. It has none of a TCP connection's short
// cuts around Read and Write.
type recordConn struct {
	net.Conn
	home           *Records
	sent, received recordParser
	shaken         bool
}

func (c *recordConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	c.received.feed(b[:n], c.cameIn)
	return n, err
}

func (c *recordConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	c.sent.feed(b[:n], c.wentOut)
	return n, err
}

// ReadFrom is for net/http's client, which looks for it.
func (c *recordConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// cameIn and wentOut take note of a record.
func (c *recordConn) cameIn(r tlsRecord) {
	if c.shaken {
		c.home.counts.Received++
		return
	}
	c.home.counts.HandshakeReceivedBytes += r.wireBytes()
}

// wentOut knows the handshake's end by the client's first encrypted record: that
// is its Finished, where it shows no certificate of its own.
func (c *recordConn) wentOut(r tlsRecord) {
	if c.shaken {
		c.home.counts.Sent++
		return
	}
	c.home.counts.HandshakeSentBytes += r.wireBytes()
	if r.kind == applicationData {
		c.shaken = true
		c.home.counts.Handshakes++
	}
}

// tlsRecord is a record's header (RFC 8446, section 5.1).
type tlsRecord struct {
	kind        byte
	lengthBytes int // of what follows the header
}

const (
	recordHeaderBytes = 5
	applicationData   = 23
)

func (r tlsRecord) wireBytes() int64 { return int64(recordHeaderBytes + r.lengthBytes) }

// recordParser finds the records in a stream that comes in pieces.
type recordParser struct {
	header [recordHeaderBytes]byte
	have   int // of the header
	left   int // of the record's body
}

// feed tells each record when its header is whole.
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
