package h2

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/net/http2"
)

// FrameHeaderLen is the length of a frame's header (section 4.1).
const FrameHeaderLen = 9

// Limits in the specification (sections 4.2 and 6.9).
const (
	maxWindow          = 1<<31 - 1
	defaultWindow      = 65535
	minMaxFrameSize    = 1 << 14
	maxMaxFrameSize    = 1<<24 - 1
	defaultHeaderTable = 4096
)

// A ConnError ends the connection. The Conn has already put a GOAWAY into the output.
type ConnError struct {
	Code   http2.ErrCode
	Reason string
}

func (e *ConnError) Error() string {
	return fmt.Sprintf("http2: connection error %s: %s", e.Code, e.Reason)
}

// A FrameHeader is the header of a frame (section 4.1).
type FrameHeader struct {
	Length   int
	Type     http2.FrameType
	Flags    http2.Flags
	StreamID uint32
}

// ParseFrameHeader reads a header from b, which must hold at least FrameHeaderLen bytes.
func ParseFrameHeader(b []byte) FrameHeader {
	_ = b[FrameHeaderLen-1]
	return FrameHeader{
		Length:   int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		Type:     http2.FrameType(b[3]),
		Flags:    http2.Flags(b[4]),
		StreamID: binary.BigEndian.Uint32(b[5:]) & maxWindow, // the reserved bit is ignored
	}
}

// AppendFrameHeader appends the encoded header to dst.
func AppendFrameHeader(dst []byte, h FrameHeader) []byte {
	return append(dst, byte(h.Length>>16), byte(h.Length>>8), byte(h.Length),
		byte(h.Type), byte(h.Flags),
		byte(h.StreamID>>24), byte(h.StreamID>>16), byte(h.StreamID>>8), byte(h.StreamID))
}

// unpad removes the padding from the payload of a DATA or HEADERS frame (section 6.1).
func unpad(h FrameHeader, p []byte) ([]byte, bool) {
	if !h.Flags.Has(http2.FlagDataPadded) {
		return p, true
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, false
	}
	return p[1 : len(p)-int(p[0])], true
}

// A budget limits frames that cost work without progress, such as useless pings, settings, empty
// DATA, stream errors or frames on closed streams (CVE-2019-9512 and related, CVE-2025-8671). Each
// such frame takes credit. Calls and time add credit. Frames that a correct peer must send take no
// credit: updates of windows that this end has used, acknowledgements, resets of open streams, and
// frames sent before the peer knows that their stream is closed.
type budget struct {
	credit  int
	last    time.Duration
	updates int // window updates that the peer may send for this end's content
	pongs   int // answers that the peer may send to this end's pings
}

const (
	budgetMax = 10000
	// creditPerSentFrame lets a peer answer each frame with some pings, to measure bandwidth.
	creditPerSentFrame = 4
	// A peer may update both windows once per frame, and once more per 256 bytes of the frame,
	// because some peers send an update after every read of their caller.
	updatesPerFrame = 2
	bytesPerUpdate  = 256 / 2
	maxUpdates      = 1 << 20
)

// refill adds credit for the time since the last refill, at the given rate per second.
func (b *budget) refill(now time.Duration, rate int) {
	long := min(now-b.last, time.Hour) // limited, so that the product does not overflow
	if gained := int(long * time.Duration(rate) / time.Second); gained > 0 {
		b.last = now
		b.credit = min(budgetMax, b.credit+gained)
	}
}

// addCredit adds n to the credit, up to budgetMax. Frames of calls add credit.
func (b *budget) addCredit(n int) { b.credit = min(budgetMax, b.credit+n) }

// addForSentFrame adds credit for a frame with n bytes of content, which this end has sent.
func (b *budget) addForSentFrame(n int) {
	b.addCredit(creditPerSentFrame)
	b.updates = min(maxUpdates, b.updates+updatesPerFrame+n/bytesPerUpdate)
}

// spend takes credit and reports whether there was enough.
func (b *budget) spend(n int) bool {
	b.credit -= n
	return b.credit >= 0
}
