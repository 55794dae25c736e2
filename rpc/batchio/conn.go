// Package batchio runs a connection of an RPC library over a socket. It has the lock, a
// goroutine that reads and a goroutine that writes. The protocol is in a [Machine], which
// the library implements as a pure state machine.
//
// How data passes through it:
//
//	caller ─ frames ─> Machine's Output ─> Conn.Flush ─> writer ─┐
//	                                                             socket
//	Role.StartCalls <─ Machine.Feed <─ chunk (Buffer) <─ reader ─┘
//
// Terms:
//
//   - An [Output] holds frames of many callers, which one write sends.
//   - A chunk is a [Buffer] that the reader reads into. Received messages may retain it
//     instead of being copied.
//   - A lent chunk is used only by messages, while the reader waits for more bytes.
//   - A batch is a group of calls whose frames one write sends, see [Conn.FlushBatch].
//
// This package must not know any protocol: neither the content of frames nor gRPC.
package batchio

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn connects a state machine to a socket.
//
// Callers queue frames in the machine's output under the lock. Before a write, the writer calls
// runtime.Gosched, so that other goroutines can queue their frames too; no other optimization
// gained as much. When a batch is large enough, the caller that completed it writes it (see
// FlushBatch). The peer then works on one batch while the next one fills.
type Conn struct {
	// Mu guards the machine, Counters and the library's own state of the connection.
	Mu      sync.Mutex
	machine Machine
	nc      net.Conn
	socket  net.Conn // the plain socket, for its file descriptor, or nil
	role    Role

	wake       chan struct{} // wakes the writer goroutine
	parked     bool
	writing    bool            // a write is in progress
	soloWrites int             // consecutive writes while at most one call was open
	throttled  bool            // the reader goroutine waits for resume, see Machine.Throttled
	resume     chan struct{}   // wakes the reader goroutine after it was throttled
	writeRate  float64         // average speed of long writes, in bytes per second
	writer     *socketWriter   // writes to the socket; nil means that the Conn writes to nc
	unwritten  *Output         // output that a caller wrote in part; the writer writes the rest
	err        error           // why the connection ended; set once
	running    *sync.WaitGroup // counts the reader and the writer goroutine

	// Used only by the reader.
	chunk      *Buffer       // holds the bytes that have been read; nil while there are none
	from, to   int           // chunk.Data[from:to] has been read, but not yet fed to the machine
	rest       *Buffer       // holds these bytes while the reader waits without a chunk; may be nil
	chunkSize  int           // size of the next chunk
	smallReads int           // consecutive reads that fit into a chunk of the size firstChunk
	callsRest  bool          // the reader calls giveUpChunk before it waits
	quiet      bool          // the next read may wait long, so it gets little memory
	spinFor    time.Duration // how long a read polls, see Spin; 0 means that the traffic decides
	sleeps     bool          // reads never poll, see DisablePolling

	lent atomic.Pointer[Buffer] // the chunk while the reader waits, see giveUpChunk
	kept KeptMemory             // the memory that received messages keep

	// LastRead is the time of the last read since Epoch, in nanoseconds.
	LastRead atomic.Int64
	// Counters count the traffic. The library counts the calls.
	Counters Counters
}

// finalWriteTimeout limits the duration of the last write, after the connection has ended.
const finalWriteTimeout = time.Second

// Epoch is the instant from which the monotonic times of state machines count.
var Epoch = time.Now()

// Init prepares a zero Conn to use nc. Next, the caller makes the machine and calls Attach.
func (c *Conn) Init(nc net.Conn) {
	c.nc, c.wake, c.resume = nc, make(chan struct{}, 1), make(chan struct{}, 1)
	c.chunkSize, c.quiet, c.soloWrites = firstChunk, true, minSoloWrites
	if d, ok := nc.(*directConn); ok {
		c.spinFor = d.spin
	}
	if c.socket = socketOf(nc); c.socket != nil {
		c.writer = newSocketWriter(c.socket)
	}
}

// DisablePolling makes reads wait at once, without polling for data first. It suits connections
// with many callers, for which CPU time matters more than microseconds. Call it before Start.
func (c *Conn) DisablePolling() { c.sleeps = true }

// MinReferenceLen is the least payload length for which an iovec costs less than a copy.
const MinReferenceLen = 8 << 10

// MinReference returns the least length of a payload that the machine should reference instead of
// copying. It returns 0 if the machine should copy every payload.
func (c *Conn) MinReference() int {
	if c.socket == nil {
		return 0
	}
	return MinReferenceLen
}

// KeptMemory returns the counter of the memory that received messages keep.
func (c *Conn) KeptMemory() *KeptMemory { return &c.kept }

// NetConn returns the connection that was passed to Init.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Attach sets the machine that gets the received bytes, and the role that gets the events.
func (c *Conn) Attach(m Machine, r Role) { c.machine, c.role = m, r }

// Start starts the reader and the writer goroutine, and adds them to running.
func (c *Conn) Start(running *sync.WaitGroup) {
	c.running = running
	c.running.Add(2)
	go c.read()
	go c.write() // last, because Go runs the newest goroutine first: it sends the preface
}

// Err returns the reason why the connection ended, or nil. The caller holds the lock.
func (c *Conn) Err() error { return c.err }

// Close ends the connection. Queued frames are still written, for at most finalWriteTimeout.
func (c *Conn) Close(err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.CloseLocked(err)
}

// CloseLocked does the same as Close. The caller holds the lock.
func (c *Conn) CloseLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	_ = c.nc.SetWriteDeadline(time.Now().Add(finalWriteTimeout))
	c.role.ConnLost(err)
	c.unthrottle()
	c.Flush()
}

// Transparent is implemented by connections that wrap a socket without changing its bytes. All
// writes, and all reads after the first, go to the socket; deadlines and Close go to the
// wrapper.
type Transparent interface {
	Socket() net.Conn
}

// socketOf returns the socket that carries nc's bytes unchanged, or nil. It checks concrete
// types, because a TLS connection that embeds a socket has the socket's methods.
func socketOf(nc net.Conn) net.Conn {
	switch nc := nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return nc
	case Transparent:
		return nc.Socket()
	}
	return nil
}

// A Machine is a protocol's state machine for one connection. A Conn calls the methods with the
// lock held: once per batch, per read or per call, but not once per frame.
type Machine interface {
	// Pending returns the number of bytes in the output.
	Pending() int
	// TakeOutput returns the output if Pending is not 0. The Conn recycles that output.
	TakeOutput() *Output
	// SetOutputLimit limits the bytes in the output. Above the limit, the machine keeps payloads
	// back until TakeOutput is called.
	SetOutputLimit(bytes int)
	// Ending returns two numbers of calls. waiting counts the calls whose last frame from this
	// end is in the output. open counts all open calls, including the waiting ones.
	Ending() (waiting, open int)
	// OpenStreams returns the number of open calls.
	OpenStreams() int
	// Feed reads at most maxFrames whole frames from buf. used is the number of bytes of these
	// frames. now is the time since Epoch. After an error, the output is still written.
	Feed(now time.Duration, buf []byte, maxFrames int) (used int, err error)
	// FrameLen returns the length of the frame at the start of buf. If buf is too short, it
	// returns the length of a frame's header.
	FrameLen(buf []byte) int
	// Throttled reports whether the output must be written before Feed is called again.
	Throttled() bool
	// Close drops the output. The Conn calls it only while no write is in progress.
	Close()
}

// A Role holds the methods in which a library's clients and servers differ. All methods but
// StartCalls and OnClosed are called with the lock held.
type Role interface {
	// StreamsChanged is called after frames were received or sent, which may have ended calls.
	StreamsChanged()
	// StartCalls runs the calls that received frames have completed.
	StartCalls()
	// ConnLost ends every call because the connection has ended.
	ConnLost(err error)
	// OnClosed is called when the socket has been closed.
	OnClosed()
}

// Counters count the calls and traffic of a connection, or of all connections of a server or
// client, from their beginning.
type Counters struct {
	CallsStarted, CallsSucceeded, CallsFailed uint64
	BytesIn, BytesOut                         uint64
	// Reads and Writes count system calls. The more calls per write, the better the batching.
	Reads, Writes uint64
}

// sendCount counts the process's calls of sendto and sendmsg. The kernel's own count of writes omits
// them.
var sendCount atomic.Int64

// SendCount returns the number of times this process has called sendto or sendmsg to write to its
// connections.
func SendCount() int64 { return sendCount.Load() }

// Sum returns the sum of two counters. It is not a method, because a method would be visible to
// users of the libraries.
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

// CallEnded counts a call that has ended. The caller holds the lock.
func (c *Conn) CallEnded(ok bool) {
	if ok {
		c.Counters.CallsSucceeded++
	} else {
		c.Counters.CallsFailed++
	}
}
