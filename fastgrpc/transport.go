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

// transport is the thin shell around an h2.Conn: a socket, the lock that guards the
// state machine, one goroutine that reads and one that writes.
//
// Callers put frames into the machine's output under the lock; the writer takes
// what many of them queued and writes it at once. Before it takes, it yields, so
// that every goroutine that is about to queue something does: of all measures this
// one gained most. A batch that is full does not wait for the writer: whoever filled
// it writes it (see send), so that the peer works on one batch while the next one
// gathers here.
type transport struct {
	mu     sync.Mutex
	h2     *h2.Conn
	nc     net.Conn
	socket net.Conn // has writev and a descriptor to read from; nil where nc is no socket
	side   side

	wake       chan struct{} // to the writer, once for each time it parked
	parked     bool
	writing    bool          // somebody is at the socket
	written    *h2.Output    // the last one written, to be filled again
	pace       float64       // bytes a second that the socket takes, in long writes
	out        *socketWriter // nil where the connection must do it
	rest       *h2.Output    // what a sender began to write and the writer is to end
	err        error         // why the connection ended; set once
	loops      sync.WaitGroup
	onTeardown func()

	// The reader's own.
	chunk    *buffer
	from, to int
	grow     bool
	small    int // reads in a row that a first chunk would have held
	pinned   atomic.Int32
	buffers  net.Buffers // the writer's own

	lastRead atomic.Int64 // nanoseconds since epoch
	counters connCounters
}

// side is what a client's and a server's connection do differently. All methods of
// h2.Handler, fed and lost are called with the lock held, settle without it.
type side interface {
	h2.Handler
	// fed and then settle act on the events that Feed delivered.
	fed()
	settle()
	// lost ends every stream because the connection has ended.
	lost(err error)
}

const (
	// framesAtOnce bounds how long the reader holds the lock.
	framesAtOnce = 64
	firstChunk   = 32 << 10
	fullChunk    = 512 << 10
	// smallestRead is the room below which a chunk is given up for a new one.
	smallestRead = 4 << 10
	// shrinkAfter is how many small reads make a connection give a large chunk back.
	shrinkAfter = 256
	// maxPinnedChunks bounds the chunks that unread messages keep; beyond it
	// messages are copied.
	maxPinnedChunks = 32
	// moment, leastOutput and mostOutput bound the queue to the socket, see keepPace.
	moment      = 250 * time.Microsecond
	leastOutput = 128 << 10
	mostOutput  = 1 << 20
	// lastWrite bounds the time to write a final GOAWAY.
	lastWrite = time.Second
)

// epoch is where the monotonic readings given to the state machine begin.
var epoch = time.Now()

func (t *transport) init(nc net.Conn, s side, cfg h2.Config) {
	t.nc, t.side, t.wake = nc, s, make(chan struct{}, 1)
	if t.socket = socketOf(nc); t.socket != nil {
		cfg.ReferenceFrom = referenceFrom
		t.out = newSocketWriter(t.socket)
	}
	t.h2 = h2.NewConn(cfg, s)
}

// referenceFrom is the payload length from which an iovec costs less than a copy.
const referenceFrom = 8 << 10

// start runs the two loops; wait returns when both have ended.
func (t *transport) start() {
	t.lastRead.Store(int64(time.Since(epoch)))
	t.loops.Add(2)
	go t.write()
	go t.read()
}

func (t *transport) wait() { t.loops.Wait() }

// flush, called with the lock held, sees to it that queued frames get written.
func (t *transport) flush() {
	due := t.h2.Pending() > 0 || t.err != nil
	if t.parked && (t.rest != nil || due && !t.writing) {
		t.parked = false
		t.wake <- struct{}{}
	}
}

// send is flush for one who has just queued a unary call or an answer. A batch that
// has grown to three fifths of the open calls is written at once: while the peer is at
// it, the others gather. Waiting for them all, as the writer does when it
// yields, makes the two ends take turns: with 50 callers on one connection and a CPU
// an end, that was measured to cost two fifths of the throughput.
func (t *transport) send() {
	if t.out != nil && !t.writing && t.err == nil {
		if ending, open := t.h2.Ending(); ending >= max(leastBatch, open*3/5) {
			t.writeDirectly()
		}
	}
	t.flush()
}

// leastBatch is how many calls are worth a write of their own.
const leastBatch = 8

// writeDirectly writes what waits, as far as the socket takes it without waiting.
func (t *transport) writeDirectly() {
	batch := t.take()
	t.mu.Unlock()
	var err error
	if segments := batch.Segments(); len(segments) == 1 {
		var n int
		n, err = t.out.writeNow(segments[0])
		t.counters.writes.Add(1)
		t.counters.bytesOut.Add(uint64(n))
		batch.Written(n)
	}
	if err == nil && batch.Len() > 0 {
		t.mu.Lock()
		t.rest = batch
		return
	}
	batch.Recycle()
	t.mu.Lock()
	t.wrote(batch, err)
}

// take begins a write of what waits. The lock is held by callers of this and of
// wrote, which ends the write.
func (t *transport) take() *h2.Output {
	t.writing = true
	batch := t.h2.TakeOutput(t.written)
	t.written = nil
	t.side.fed() // streams may have ended with what was taken
	return batch
}

func (t *transport) wrote(batch *h2.Output, err error) {
	t.written, t.writing = batch, false
	if err != nil {
		t.closeLocked(err)
	}
}

// keepPace follows how fast the socket takes long writes, and lets as much be queued
// as it takes in a moment: over a slow link a short message then never waits long
// behind long ones, and over a fast one few long writes cost less than many. A stream
// over loopback was measured to cost a quarter less than with 256 KiB queued always.
func (t *transport) keepPace(n int, took time.Duration) {
	now := float64(n) / max(took, time.Microsecond).Seconds()
	t.pace += (now - t.pace) / 8
	t.h2.SetOutputLimit(int(min(max(t.pace*moment.Seconds(), leastOutput), mostOutput)))
}

// close ends the connection: what is queued is still written, within a moment.
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
	_ = t.nc.SetWriteDeadline(time.Now().Add(lastWrite))
	t.side.lost(err)
	t.flush()
}

// write is the writer's loop. It ends after the connection has.
func (t *transport) write() {
	defer t.loops.Done()
	t.mu.Lock()
	for {
		batch := t.rest
		switch {
		case batch != nil:
			t.rest = nil
		case t.writing, t.h2.Pending() == 0 && t.err == nil:
			t.parked = true
			t.mu.Unlock()
			<-t.wake
			runtime.Gosched()
			t.mu.Lock()
			continue
		case t.h2.Pending() > 0:
			batch = t.take()
		default:
			t.h2.Close()
			t.mu.Unlock()
			_ = t.nc.Close()
			if t.onTeardown != nil {
				t.onTeardown()
			}
			return
		}
		t.mu.Unlock()
		n, began := batch.Len(), time.Now()
		err := t.writeBatch(batch)
		took := time.Since(began)
		batch.Recycle()
		t.mu.Lock()
		t.wrote(batch, err)
		if n >= leastOutput {
			t.keepPace(n, took)
		}
	}
}

func (t *transport) writeBatch(batch *h2.Output) error {
	t.counters.bytesOut.Add(uint64(batch.Len()))
	t.counters.writes.Add(1)
	segments := batch.Segments()
	if t.socket != nil && len(segments) > 1 {
		t.buffers = segments
		_, err := t.buffers.WriteTo(t.socket)
		return err
	}
	if t.out != nil && len(segments) == 1 {
		return t.out.writeAll(segments[0])
	}
	for _, segment := range segments {
		if _, err := t.nc.Write(segment); err != nil {
			return err
		}
	}
	return nil
}

// read is the reader's loop. It ends with the socket or at the peer's first
// unforgivable fault.
func (t *transport) read() {
	defer t.loops.Done()
	t.chunk = newBuffer(firstChunk)
	source, heard := io.Reader(t.nc), false
	var err error
	for err == nil {
		t.makeRoom()
		var n int
		n, err = source.Read(t.chunk.data[t.to:])
		if n == 0 {
			continue
		}
		if t.socket != nil && !heard {
			source = newSocketReader(t.socket)
		}
		heard = true
		t.to += n
		t.grow = t.to == len(t.chunk.data)
		if t.small++; t.to > firstChunk {
			t.small = 0
		}
		t.counters.bytesIn.Add(uint64(n))
		t.counters.reads.Add(1)
		if fault := t.feed(); fault != nil {
			err = fault
		}
	}
	t.close(err)
	t.chunk.Release()
	t.chunk = nil
}

var errClosed = errors.New("fastgrpc: connection closed")

// feed gives the machine all whole frames of the chunk.
func (t *transport) feed() error {
	now := time.Since(epoch)
	t.lastRead.Store(int64(now))
	for t.from < t.to {
		t.mu.Lock()
		if t.err != nil {
			t.mu.Unlock()
			return errClosed
		}
		n, err := t.h2.Feed(now, t.chunk.data[t.from:t.to], framesAtOnce)
		t.side.fed()
		t.flush()
		t.mu.Unlock()
		t.from += n
		t.side.settle()
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	return nil
}

// retainable is the chunk that a message may keep, or nil where it must copy.
func (t *transport) retainable() *buffer {
	if t.pinned.Load() >= maxPinnedChunks {
		return nil
	}
	return t.chunk
}

// makeRoom readies the chunk for the next read. Messages may lie in it still; then
// only its unused end may be written.
func (t *transport) makeRoom() {
	size := len(t.chunk.data)
	left := t.to - t.from
	if left == 0 && t.small >= shrinkAfter && size > firstChunk {
		t.chunk.Release()
		t.chunk, t.from, t.to, t.small = newBuffer(firstChunk), 0, 0, 0
		return
	}
	if left == 0 && !t.chunk.shared() && (!t.grow || size >= fullChunk) {
		t.from, t.to = 0, 0
		return
	}
	need := 0
	if left > 0 {
		need = h2.Need(t.chunk.data[t.from:t.to])
	}
	if t.from+need <= size && size-t.to >= smallestRead && !t.grow {
		return
	}
	if t.grow {
		size = fullChunk
	}
	next := newBuffer(max(size, need+smallestRead))
	copy(next.data, t.chunk.data[t.from:t.to])
	if t.chunk.shared() {
		// The last of its messages may go at this moment; then the count is one
		// too high until the chunk's own release below.
		t.chunk.pins = &t.pinned
		t.pinned.Add(1)
	}
	t.chunk.Release()
	t.chunk, t.from, t.to, t.grow = next, 0, left, false
}
