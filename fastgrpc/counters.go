package fastgrpc

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// connCounters are what one connection has done. They are written by the
// connection's own goroutines or under its lock, so they cost no contention.
type connCounters struct {
	reads, writes, bytesIn, bytesOut            atomic.Uint64
	callsStarted, callsSucceeded, callsFailed   atomic.Uint64
	messagesSent, messagesReceived, resetsCount atomic.Uint64
}

func (c *connCounters) ended(code codes.Code) {
	if code == codes.OK {
		c.callsSucceeded.Add(1)
	} else {
		c.callsFailed.Add(1)
	}
}

type serverTotals struct {
	connections, handshakesFailed atomic.Uint64
}
