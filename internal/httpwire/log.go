package httpwire

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
)

// boundedLog passes on the first lines, so that a fault which repeats with
// every request cannot fill a disk. Failed handshakes have a few lines of their
// own: clients that leave early are no news, and must not use up the lines of a
// handler that panics.
type boundedLog struct {
	to         io.Writer
	handshakes atomic.Int64
	others     atomic.Int64
}

// Lines that each may have.
const (
	maxHandshakeLines = 5
	maxOtherLines     = 100
)

func (l *boundedLog) Write(line []byte) (int, error) {
	seen, most := &l.others, int64(maxOtherLines)
	if bytes.Contains(line, []byte("TLS handshake error")) {
		seen, most = &l.handshakes, maxHandshakeLines
	}
	switch n := seen.Add(1); {
	case n < most:
		return l.to.Write(line)
	case n == most:
		return fmt.Fprintf(l.to, "%shttp: that was line %d of this kind; there will be no more\n", line, n)
	default:
		return len(line), nil
	}
}
