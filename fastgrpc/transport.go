package fastgrpc

import (
	"errors"
	"io"
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
	spare     *h2.Output      // the last output written, to be reused
	writeRate float64         // bytes per second of long writes, averaged
	writer    *socketWriter   // nil: write to nc
	unwritten *h2.Output      // a caller began to write it and the writer must finish
	err       error           // why the connection ended; set once
	running   *sync.WaitGroup // counts both goroutines

	// Used only by the reader, except pinned and buffers.
	chunk      *buffer
	from, to   int
	grow       bool
	smallReads int // reads in a row that would have fit into a first chunk
	pinned     atomic.Int32
	buffers    net.Buffers // used only by the writer

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
	firstChunk       = 32 << 10
	fullChunk        = 512 << 10
	// minRead is the least room for a read; with less, the reader takes a new chunk.
	minRead = 4 << 10
	// shrinkAfter is the number of small reads after which a large chunk is given back.
	shrinkAfter = 256
	// maxPinnedChunks bounds the chunks that unread messages retain. Beyond it,
	// messages are copied.
	maxPinnedChunks = 32
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
	t.nc, t.role, t.wake = nc, r, make(chan struct{}, 1)
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
		t.finishWrite(batch, err)
	} else {
		t.unwritten = batch
	}
}

// takeOutput begins a write of the queued frames, and finishWrite ends it. The lock is
// held for both.
func (t *transport) takeOutput() *h2.Output {
	t.writing = true
	batch := t.h2.TakeOutput(t.spare)
	t.spare = nil
	t.counters.BytesOut += uint64(batch.Len())
	t.role.streamsChanged() // the output may hold the last frames of streams
	return batch
}

func (t *transport) finishWrite(batch *h2.Output, err error) {
	t.spare, t.writing = batch, false
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
	t.flush()
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
		t.finishWrite(batch, err)
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
	t.chunk = newBuffer(firstChunk)
	source, gotData := io.Reader(t.nc), false
	if _, wrapped := t.nc.(Transparent); t.socket != nil && !wrapped {
		source, gotData = newSocketReader(t.socket), true
	}
	var err error
	for err == nil {
		t.prepareChunk()
		var n int
		n, err = source.Read(t.chunk.data[t.to:])
		if n == 0 {
			continue
		}
		if t.socket != nil && !gotData {
			source = newSocketReader(t.socket)
		}
		gotData = true
		t.to += n
		t.grow = t.to == len(t.chunk.data)
		if t.smallReads++; t.to > firstChunk {
			t.smallReads = 0
		}
		if fault := t.feed(n); fault != nil {
			err = fault
		}
	}
	t.close(err)
	t.chunk.Release()
	t.chunk = nil
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
		if t.err != nil {
			t.mu.Unlock()
			return errClosed
		}
		used, err := t.h2.Feed(now, t.chunk.data[t.from:t.to], maxFramesPerLock)
		t.role.streamsChanged()
		t.flush()
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

// retainable returns the chunk that a message may retain, or nil if it must copy.
func (t *transport) retainable() *buffer {
	if t.pinned.Load() >= maxPinnedChunks {
		return nil
	}
	return t.chunk
}

// prepareChunk makes room in the chunk for the next read, or replaces the chunk. While
// messages retain it, only its unused end may be written.
func (t *transport) prepareChunk() {
	size := len(t.chunk.data)
	left := t.to - t.from
	if left == 0 && t.smallReads >= shrinkAfter && size > firstChunk {
		t.chunk.Release()
		t.chunk, t.from, t.to, t.smallReads = newBuffer(firstChunk), 0, 0, 0
		return
	}
	if left == 0 && !t.chunk.isShared() && (!t.grow || size >= fullChunk) {
		t.from, t.to = 0, 0
		return
	}
	need := 0
	if left > 0 {
		need = h2.FrameLen(t.chunk.data[t.from:t.to])
	}
	if t.from+need <= size && size-t.to >= minRead && !t.grow {
		return
	}
	if t.grow {
		size = fullChunk
	}
	next := newBuffer(max(size, need+minRead))
	copy(next.data, t.chunk.data[t.from:t.to])
	if t.chunk.isShared() {
		// If its last message is released concurrently, the count is one too high
		// until the Release below.
		t.chunk.pins = &t.pinned
		t.pinned.Add(1)
	}
	t.chunk.Release()
	t.chunk, t.from, t.to, t.grow = next, 0, left, false
}
