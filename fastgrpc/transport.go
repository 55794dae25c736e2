package fastgrpc

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/fastgrpc/internal/h2"
)

// transport connects an h2.Conn to a socket. It holds the lock that guards the state
// machine, a reader goroutine and a writer goroutine.
//
// Callers queue frames in the h2.Conn's output under the lock. The writer writes the
// frames of many callers at once. It yields first, so that goroutines that are about to
// queue something can do so; no other optimization gained as much. When a batch is
// large enough, the caller that completed it writes it (see flushBatch), so that the
// peer works on one batch while the next one fills.
type transport struct {
	mu     sync.Mutex
	h2     *h2.Conn
	nc     net.Conn
	socket net.Conn // for writev and the file descriptor; nil if nc is not a plain socket
	role   connRole

	wake      chan struct{} // wakes the writer, once each time it parked
	parked    bool
	writing   bool            // a write is in progress
	throttled bool            // the reader waits for resume, see h2.Conn.Throttled
	resume    chan struct{}   // wakes the reader, once each time it was throttled
	writeRate float64         // bytes per second of long writes, averaged
	writer    *socketWriter   // nil: write to nc
	unwritten *h2.Output      // a caller began to write it and the writer must finish
	err       error           // why the connection ended; set once
	running   *sync.WaitGroup // counts both goroutines

	// Used only by the reader.
	chunk      *buffer // what has been read; nil while that is nothing
	from, to   int
	chunkSize  int  // of the next chunk
	smallReads int  // reads in a row that would have fit into a first chunk
	restful    bool // calls rest while it waits
	quiet      bool // the next read may wait long, so it gets little memory

	lent    atomic.Pointer[buffer] // the chunk while the reader waits, see rest
	kept    atomic.Int64           // bytes of memory that received messages keep
	buffers net.Buffers            // used only by the writer

	lastRead atomic.Int64 // nanoseconds since epoch
	counters Counters     // guarded by mu
}

// connRole is what clients and servers do differently on a connection. All methods but
// startCalls and onClosed are called with the lock held.
type connRole interface {
	h2.Handler
	// streamsChanged is called after frames were received or sent, which may have ended
	// streams.
	streamsChanged()
	// startCalls runs the calls that received frames have completed.
	startCalls()
	// checkTimes does what is due by the keepalive's rules.
	checkTimes()
	// connLost ends every stream because the connection has ended.
	connLost(err error)
	// onClosed is called when the socket has been closed.
	onClosed()
}

const (
	// maxFramesPerLock bounds how long the reader holds the lock.
	maxFramesPerLock = 64
	// restChunk is for readers that need memory while they wait, under TLS for instance.
	restChunk  = 512
	firstChunk = 32 << 10
	fullChunk  = 512 << 10
	// minRead is the least room for a read; with less, the reader takes a new chunk.
	minRead = 4 << 10
	// shrinkAfter is the number of small reads after which a large chunk is given back.
	shrinkAfter = 256
	// moment, minOutput and maxOutput bound the queue to the socket, see tuneOutputLimit.
	queueTime = 250 * time.Microsecond
	minOutput = 128 << 10
	maxOutput = 1 << 20
	// finalWriteTimeout bounds the last write after the connection has ended.
	finalWriteTimeout = time.Second
)

// epoch is the zero of the monotonic times that the state machine gets.
var epoch = time.Now()

func (t *transport) init(nc net.Conn, r connRole, cfg h2.Config) {
	t.nc, t.role, t.wake, t.resume = nc, r, make(chan struct{}, 1), make(chan struct{}, 1)
	t.chunkSize, t.quiet = firstChunk, true
	cfg.Kept = &t.kept
	if t.socket = socketOf(nc); t.socket != nil {
		cfg.MinReferenceLen = minReferenceLen
		t.writer = newSocketWriter(t.socket)
	}
	t.h2 = h2.NewConn(cfg, r)
}

// minReferenceLen is the payload length from which an iovec costs less than a copy.
const minReferenceLen = 8 << 10

// start runs the two loops.
func (t *transport) start(running *sync.WaitGroup) {
	t.running = running
	t.running.Add(2)
	go t.read()
	go t.write() // last, so that it runs first: the preface must not wait for the peer's
}

// flush wakes the writer if there is something to write. The lock is held.
func (t *transport) flush() {
	due := t.h2.Pending() > 0 || t.err != nil
	if t.parked && (t.unwritten != nil || due && !t.writing) {
		t.parked = false
		t.wake <- struct{}{}
	}
}

// flushBatch is flush for callers that have just queued a unary call or a response. Once
// the batch holds three fifths of the open calls, it is written at once: the peer works
// on it while the other calls queue. Waiting for all calls, as the writer does when it
// yields, makes the two ends take turns. With 50 callers on one connection and one CPU
// per end, that was measured to cost two fifths of the throughput.
func (t *transport) flushBatch() {
	if t.writer != nil && !t.writing && t.err == nil {
		if ending, open := t.h2.Ending(); ending >= max(minBatch, open*3/5) {
			t.writeFromCaller()
		}
	}
	t.flush()
}

// minBatch is the least number of calls in a batch that a caller writes.
const minBatch = 8

// writeFromCaller writes queued frames as far as the socket accepts them without
// waiting, and leaves the rest to the writer. It releases the lock while it writes.
func (t *transport) writeFromCaller() {
	batch := t.takeOutput()
	segments := batch.Segments()
	if len(segments) > 1 {
		t.unwritten = batch
		return
	}
	t.mu.Unlock()
	n, err := t.writer.tryWrite(segments[0])
	batch.Written(n)
	done := err != nil || batch.Len() == 0
	if done {
		batch.Recycle()
	}
	t.mu.Lock()
	t.counters.Writes++
	if done {
		t.finishWrite(err)
	} else {
		t.unwritten = batch
	}
}

// takeOutput begins a write of the queued frames, and finishWrite ends it. The lock is
// held for both.
func (t *transport) takeOutput() *h2.Output {
	t.writing = true
	batch := t.h2.TakeOutput()
	t.unthrottle()
	t.counters.BytesOut += uint64(batch.Len())
	t.role.streamsChanged() // the output may hold the last frames of streams
	return batch
}

func (t *transport) finishWrite(err error) {
	t.writing = false
	if err != nil {
		t.closeLocked(err)
	}
}

// tuneOutputLimit measures how fast the socket accepts long writes, and limits the
// output queue to what it accepts in queueTime. On a slow link, a short message then
// does not wait long behind long ones. On a fast link, there are fewer and longer
// writes: a stream over loopback was measured to cost a quarter less than with a fixed
// limit of 256 KiB.
func (t *transport) tuneOutputLimit(n int, took time.Duration) {
	now := float64(n) / max(took, time.Microsecond).Seconds()
	t.writeRate += (now - t.writeRate) / 8
	t.h2.SetOutputLimit(int(min(max(t.writeRate*queueTime.Seconds(), minOutput), maxOutput)))
}

// close ends the connection. Queued frames are still written, for at most
// finalWriteTimeout.
func (t *transport) close(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeLocked(err)
}

func (t *transport) closeLocked(err error) {
	if t.err != nil {
		return
	}
	t.err = err
	_ = t.nc.SetWriteDeadline(time.Now().Add(finalWriteTimeout))
	t.role.connLost(err)
	t.unthrottle()
	t.flush()
}

// throttle makes the reader wait, without the lock, until the output that it must not
// add to is being written. A peer that does not read is thereby not read either: its
// frames wait on its own side. Grpc-go does the same.
func (t *transport) throttle() {
	for t.err == nil && t.h2.Throttled() {
		t.throttled = true
		t.flush()
		t.mu.Unlock()
		<-t.resume
		t.mu.Lock()
	}
}

func (t *transport) unthrottle() {
	if t.throttled {
		t.throttled = false
		t.resume <- struct{}{}
	}
}

// write is the writer's loop. It closes the socket after the connection has ended, and
// returns.
func (t *transport) write() {
	defer t.running.Done()
	t.mu.Lock()
	for {
		batch := t.unwritten
		switch {
		case batch != nil:
			t.unwritten = nil
		case t.writing, t.h2.Pending() == 0 && t.err == nil:
			t.parked = true
			t.mu.Unlock()
			<-t.wake
			runtime.Gosched()
			t.mu.Lock()
			continue
		case t.h2.Pending() > 0:
			batch = t.takeOutput()
		default:
			t.h2.Close()
			t.mu.Unlock()
			_ = t.nc.Close()
			t.role.onClosed()
			return
		}
		t.mu.Unlock()
		n, began := batch.Len(), time.Now()
		err := t.writeBatch(batch)
		took := time.Since(began)
		batch.Recycle()
		t.mu.Lock()
		t.counters.Writes++
		t.finishWrite(err)
		if n >= minOutput {
			t.tuneOutputLimit(n, took)
		}
	}
}

func (t *transport) writeBatch(batch *h2.Output) error {
	segments := batch.Segments()
	if t.socket != nil && len(segments) > 1 {
		t.buffers = segments
		_, err := t.buffers.WriteTo(t.socket)
		t.buffers = nil // the next output that uses its memory may be another connection's
		return err
	}
	if t.writer != nil && len(segments) == 1 {
		return t.writer.writeAll(segments[0])
	}
	for _, segment := range segments {
		if _, err := t.nc.Write(segment); err != nil {
			return err
		}
	}
	return nil
}

// read is the reader's loop. It returns when the socket fails or the peer breaks the
// protocol.
func (t *transport) read() {
	defer t.running.Done()
	source := func() (int, error) { return t.nc.Read(t.room()) }
	_, wrapped := t.nc.(Transparent) // whose first read is its own
	var err error
	for gotData := false; err == nil; gotData = true {
		if t.socket != nil && !t.restful && (gotData || !wrapped) {
			if spin := newSocketReader(t); spin != nil {
				source, t.restful, t.quiet = spin, true, false
			}
		}
		var n int
		n, err = source()
		if n == 0 {
			continue
		}
		t.to += n
		if size := len(t.chunk.data); t.to == size && size >= firstChunk {
			t.chunkSize = fullChunk
		}
		if t.smallReads++; t.to > firstChunk {
			t.smallReads = 0
		} else if t.smallReads >= shrinkAfter {
			t.chunkSize = firstChunk
		}
		if fault := t.feed(n); fault != nil {
			err = fault
		}
	}
	t.close(err)
	if t.from = t.to; t.chunk != nil {
		t.dropChunk()
	}
}

var errClosed = errors.New("fastgrpc: connection closed")

// feed passes all whole frames of the chunk, to which n bytes were added, to the state
// machine.
func (t *transport) feed(n int) error {
	now := time.Since(epoch)
	t.lastRead.Store(int64(now))
	for t.from < t.to {
		t.mu.Lock()
		if n > 0 {
			t.counters.Reads++
			t.counters.BytesIn += uint64(n)
			n = 0
		}
		t.throttle()
		if t.err != nil {
			t.mu.Unlock()
			return errClosed
		}
		used, err := t.h2.Feed(now, t.chunk.data[t.from:t.to], maxFramesPerLock)
		t.role.streamsChanged()
		t.flush()
		if !t.restful {
			t.quiet = t.h2.OpenStreams() == 0
		}
		t.mu.Unlock()
		t.from += used
		t.role.startCalls()
		if err != nil {
			return err
		}
		if used == 0 {
			break
		}
	}
	return nil
}

// retainable returns the chunk that a message may retain, or nil if it must copy. A short
// message may retain a long chunk, so this is not for a peer whose messages are not read.
func (t *transport) retainable() *buffer {
	if t.h2.Tight() {
		return nil
	}
	return t.chunk
}

// room returns memory for the next read, behind what has been read and not used. While
// messages retain the chunk, only its unused end may be written.
func (t *transport) room() []byte {
	size := t.chunkSize
	if t.quiet {
		size = restChunk
	}
	if t.chunk == nil {
		t.chunk = t.lent.Swap(nil)
	}
	left := t.to - t.from
	if left == 0 && t.chunk != nil {
		switch have := len(t.chunk.data); {
		case have != size, t.chunk.isShared() && have-t.to < minRead:
			t.dropChunk()
		case !t.chunk.isShared():
			t.from, t.to = 0, 0
		}
	}
	if t.chunk == nil {
		t.chunk, t.from, t.to = newBuffer(size), 0, 0
		t.chunk.lent = &t.lent
	}
	if left > 0 {
		need, have := h2.FrameLen(t.chunk.data[t.from:t.to]), len(t.chunk.data)
		if t.from+need > have || have-t.to < minRead || have < size {
			next := newBuffer(max(size, need+minRead))
			next.lent = &t.lent
			copy(next.data, t.chunk.data[t.from:t.to])
			t.dropChunk()
			t.chunk, t.from, t.to = next, 0, left
		}
	}
	return t.chunk.data[t.to:]
}

// rest gives the chunk back if all of it has been used, because the reader will wait.
// While messages retain it, it is lent: the reader takes it back when there is more to
// read, unless the last message has been released before.
func (t *transport) rest() {
	if t.chunk == nil || t.from < t.to {
		return
	}
	if b := t.chunk; b.refs.Load() > 1 {
		b.keep(&t.kept)
		t.chunk = nil
		t.lent.Store(b)
		if b.refs.Load() > 1 || !t.lent.CompareAndSwap(b, nil) {
			return
		}
		t.chunk = b
	}
	t.dropChunk()
}

func (t *transport) dropChunk() {
	if t.chunk.isShared() {
		// If its last message is released concurrently, its cost is counted until the
		// Release below.
		t.chunk.keep(&t.kept)
	}
	t.chunk.Release()
	t.chunk = nil
}
