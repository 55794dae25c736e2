package httpwire

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
)

// boundedLog writes only the first lines, so that an error of every request
// cannot fill a disk. Failed handshakes have their own, lower limit: clients that
// disconnect early are normal, and must not use up the lines for panics.
type boundedLog struct {
	to         io.Writer
	handshakes atomic.Int64
	others     atomic.Int64
}

// The number of lines of each kind.
const (
	maxHandshakeLines = 5
	maxOtherLines     = 100
)

func (l *boundedLog) Write(line []byte) (int, error) {
	count, limit := &l.others, int64(maxOtherLines)
	if bytes.Contains(line, []byte("TLS handshake error")) {
		count, limit = &l.handshakes, maxHandshakeLines
	}
	switch n := count.Add(1); {
	case n < limit:
		return l.to.Write(line)
	case n == limit:
		return fmt.Fprintf(l.to, "%shttp: that was line %d of this kind; no more will be shown\n", line, n)
	default:
		return len(line), nil
	}
}
