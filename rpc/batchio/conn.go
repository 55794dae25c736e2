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
//   - A lent chunk is used only by messages. Its reader gave it up before waiting for more bytes.
//   - A batch ends when it holds most of the open calls, see [Conn.FlushBatch].
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
	socket  net.Conn // for writev and the file descriptor; nil if nc is not a plain socket
	role    Role

	wake      chan struct{} // wakes the writer, once per wait
	parked    bool
	writing   bool            // a write is in progress
	throttled bool            // the reader waits for resume, see Machine.Throttled
	resume    chan struct{}   // wakes the reader, once each time it was throttled
	writeRate float64         // bytes per second of long writes, averaged
	writer    *socketWriter   // nil: write to nc
	unwritten *Output         // a caller began to write it; the writer must finish
	err       error           // why the connection ended; set once
	running   *sync.WaitGroup // counts both goroutines

	// Used only by the reader.
	chunk      *Buffer       // holds the bytes that have been read; nil while there are none
	from, to   int           // the bytes of chunk that have not been used
	chunkSize  int           // size of the next chunk
	smallReads int           // reads in a row that would have fit into a first chunk
	callsRest  bool          // the reader calls giveUpChunk before it waits
	quiet      bool          // the next read may wait long, so it gets little memory
	spinFor    time.Duration // see Spin; 0: the connection's traffic decides
	sleeps     bool          // see DisablePolling

	lent    atomic.Pointer[Buffer] // the chunk while the reader waits, see giveUpChunk
	kept    KeptMemory             // the memory that received messages keep
	buffers net.Buffers            // used only by the writer

	// LastRead is the time of the last read since Epoch, in nanoseconds.
	LastRead atomic.Int64
	// Counters count the traffic. The library counts the calls.
	Counters Counters
}

// finalWriteTimeout bounds the last write after the connection has ended.
const finalWriteTimeout = time.Second

// Epoch is the zero of the monotonic times that state machines get.
var Epoch = time.Now()

// Init prepares a zero Conn to use nc. Next, the caller makes the machine and calls Attach.
func (c *Conn) Init(nc net.Conn) {
	c.nc, c.wake, c.resume = nc, make(chan struct{}, 1), make(chan struct{}, 1)
	c.chunkSize, c.quiet = firstChunk, true
	if s, ok := nc.(*spinConn); ok {
		c.spinFor = s.most
	}
	if c.socket = socketOf(nc); c.socket != nil {
		c.writer = newSocketWriter(c.socket)
	}
}

// DisablePolling makes reads wait at once, without polling for data first. It suits connections
// with many callers, for which CPU time matters more than microseconds. Call it before Start.
func (c *Conn) DisablePolling() { c.sleeps = true }

// MinReferenceLen is the payload length from which an iovec costs less than a copy.
const MinReferenceLen = 8 << 10

// MinReference returns the payload length from which the machine should reference a
// payload instead of copying it: MinReferenceLen, or 0 for never.
func (c *Conn) MinReference() int {
	if c.socket == nil {
		return 0
	}
	return MinReferenceLen
}

// KeptMemory counts the bytes of memory that received messages keep.
func (c *Conn) KeptMemory() *KeptMemory { return &c.kept }

// NetConn returns the connection that Init was given.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Attach sets the machine that gets the received bytes, and the role that gets the events.
func (c *Conn) Attach(m Machine, r Role) { c.machine, c.role = m, r }

// Start runs the two loops.
func (c *Conn) Start(running *sync.WaitGroup) {
	c.running = running
	c.running.Add(2)
	go c.read()
	go c.write() // the goroutine started last runs first: it sends the preface before read waits
}

// Err returns the reason why the connection ended, or nil. The caller holds the lock.
func (c *Conn) Err() error { return c.err }

// Close ends the connection. Queued frames are still written, for at most finalWriteTimeout.
func (c *Conn) Close(err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.CloseLocked(err)
}

// CloseLocked is Close with the lock held.
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

// socketOf returns the socket that carries nc's bytes unchanged, or nil. It checks
// concrete types because a TLS connection may embed a socket and so have its methods.
func socketOf(nc net.Conn) net.Conn {
	switch nc := nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return nc
	case Transparent:
		return nc.Socket()
	}
	return nil
}

// A Machine is a protocol's state machine for one connection. A Conn calls it with the lock
// held, once per batch, read or call, but never once per frame.
type Machine interface {
	// Pending returns the number of bytes in the output.
	Pending() int
	// TakeOutput returns the output if Pending is not 0. The Conn recycles it.
	TakeOutput() *Output
	// SetOutputLimit changes the number of bytes in the output from which the machine keeps
	// payloads back until the output has been taken.
	SetOutputLimit(bytes int)
	// Ending returns the number of calls that have this end's last frame in the output, and
	// the number of open calls, including these.
	Ending() (waiting, open int)
	// OpenStreams returns the number of open calls.
	OpenStreams() int
	// Feed reads whole frames from buf, at most maxFrames, and returns the number of bytes
	// it used. now is the time since Epoch. After an error, the output is still written.
	Feed(now time.Duration, buf []byte, maxFrames int) (used int, err error)
	// FrameLen returns the length of the frame at the start of buf, or of its header if
	// buf is too short.
	FrameLen(buf []byte) int
	// Throttled reports whether the output must be written before more is fed.
	Throttled() bool
	// Close drops the output. No write is in progress.
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

// Counters count the calls and traffic of a connection, or of all connections of a
// server or client, since it began.
type Counters struct {
	CallsStarted, CallsSucceeded, CallsFailed uint64
	BytesIn, BytesOut                         uint64
	// Reads and Writes count system calls: calls per write show how well frames are batched.
	Reads, Writes uint64
}

// sendCount counts the process's calls of sendto. The kernel's own count of writes omits them.
var sendCount atomic.Int64

// SendCount returns the number of times this process has called sendto to write to its connections.
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

// CallEnded counts a call. The caller holds the lock.
func (c *Conn) CallEnded(ok bool) {
	if ok {
		c.Counters.CallsSucceeded++
	} else {
		c.Counters.CallsFailed++
	}
}
