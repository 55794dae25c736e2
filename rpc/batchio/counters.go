package batchio

import "sync/atomic"

// Counters count the calls and traffic of a connection, or of all connections of a
// server or client, since it began.
type Counters struct {
	CallsStarted, CallsSucceeded, CallsFailed uint64
	BytesIn, BytesOut                         uint64
	// Reads and Writes count system calls: calls per write show how well frames are
	// batched.
	Reads, Writes uint64
}

// sends counts the process's calls of sendto. The kernel's own count of writes omits them.
var sends atomic.Int64

// Sends returns the number of times this process has called sendto to write to its
// connections.
func Sends() int64 { return sends.Load() }

// Sum returns the sum of two counters. It is not a method because a library's users see the
// type.
func Sum(a, b Counters) Counters {
	a.CallsStarted += b.CallsStarted
	a.CallsSucceeded += b.CallsSucceeded
	a.CallsFailed += b.CallsFailed
	a.BytesIn += b.BytesIn
	a.BytesOut += b.BytesOut
	a.Reads += b.Reads
	a.Writes += b.Writes
	return a
}

// CallEnded counts a call. The lock is held.
func (c *Conn) CallEnded(ok bool) {
	if ok {
		c.Counters.CallsSucceeded++
	} else {
		c.Counters.CallsFailed++
	}
}
