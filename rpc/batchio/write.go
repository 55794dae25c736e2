package batchio

import (
	"runtime"
	"sync"
	"time"
)

// MinOutput and MaxOutput are the lowest and the highest limit of the output. tuneOutputLimit
// chooses as limit the number of bytes that the socket accepts in queueTime.
const (
	MinOutput = 128 << 10
	MaxOutput = 1 << 20
	queueTime = 250 * time.Microsecond
)

// Flush wakes the writer if there is something to write. The caller holds the lock.
func (c *Conn) Flush() {
	if !c.parked {
		return
	}
	if c.unwritten != nil || !c.writing && (c.err != nil || c.machine.Pending() > 0) {
		c.parked = false
		c.wake <- struct{}{}
	}
}

// FlushBatch flushes for a caller that has just queued a unary call or a response. If the batch
// holds three fifths of the open calls, or a few long calls, FlushBatch writes the batch at once.
// The peer then works on the batch while the other calls queue. The writer would wait for all
// calls, and the two ends would work in turns: with 50 callers on one connection, this cost 40 %
// of the throughput. FlushBatch leaves a single long call to the writer: otherwise short calls
// take 50 % longer. But while there has been only one call at a time, nothing can be batched, and
// waking the writer would cost a fifth of the call's CPU time.
func (c *Conn) FlushBatch() {
	if c.writer != nil && !c.writing && c.err == nil {
		ending, open := c.machine.Ending()
		alone := open == 1 && c.soloWrites >= minSoloWrites
		if alone || ending >= max(c.minCallerBatch(), open*3/5) || ending >= 2 && c.machine.Pending() >= MinOutput {
			c.writeFromCaller()
		}
	}
	c.Flush()
}

const (
	// minBatch is the smallest number of calls in a batch that a caller writes.
	minBatch = 8
	// minSoloWrites is the number of writes with at most one call, after which that call's caller
	// writes. A new connection begins with this number: many connections have only few calls, one
	// at a time.
	minSoloWrites = 8
)

// minCallerBatch returns minBatch, or 1 if the connection spins and so has only few calls.
func (c *Conn) minCallerBatch() int {
	if c.spinFor > 0 {
		return 1
	}
	return minBatch
}

// writeFromCaller writes queued frames as far as the socket accepts them without
// waiting, and leaves the rest to the writer. It releases the lock while it writes.
func (c *Conn) writeFromCaller() {
	batch := c.takeOutput()
	c.Mu.Unlock()
	err := c.writer.write(batch, false)
	done := err != nil || batch.Len() == 0
	if done {
		batch.Recycle()
	}
	c.Mu.Lock()
	c.Counters.Writes++
	if done {
		c.finishWrite(err)
	} else {
		c.unwritten = batch
	}
}

// takeOutput begins a write of the queued frames; finishWrite ends it. The caller holds the lock.
func (c *Conn) takeOutput() *Output {
	c.writing = true
	if _, open := c.machine.Ending(); open > 1 {
		c.soloWrites = 0
	} else {
		c.soloWrites++
	}
	batch := c.machine.TakeOutput()
	c.unthrottle()
	c.Counters.BytesOut += uint64(batch.Len())
	c.role.StreamsChanged() // the output may hold the last frames of streams
	return batch
}

func (c *Conn) finishWrite(err error) {
	c.writing = false
	if err != nil {
		c.CloseLocked(err)
	}
}

// tuneOutputLimit measures how fast the socket accepts long writes. It limits the output to the
// bytes that the socket accepts in queueTime. On a slow link, a short message then does not wait
// long for long messages. On a fast link, writes are fewer and longer: a stream over loopback costs
// a quarter less.
func (c *Conn) tuneOutputLimit(n int, took time.Duration) {
	now := float64(n) / max(took, time.Microsecond).Seconds()
	c.writeRate += (now - c.writeRate) / 8
	c.machine.SetOutputLimit(int(min(max(c.writeRate*queueTime.Seconds(), MinOutput), MaxOutput)))
}

// write is the writer's loop. It closes the socket after the connection has ended, and returns.
func (c *Conn) write() {
	defer c.running.Done()
	c.Mu.Lock()
	for {
		batch := c.unwritten
		switch {
		case batch != nil:
			c.unwritten = nil
		case c.writing, c.machine.Pending() == 0 && c.err == nil:
			c.parked = true
			c.Mu.Unlock()
			<-c.wake
			runtime.Gosched()
			c.Mu.Lock()
			continue
		case c.machine.Pending() > 0:
			batch = c.takeOutput()
		default:
			c.machine.Close()
			c.Mu.Unlock()
			_ = c.nc.Close()
			c.role.OnClosed()
			return
		}
		c.Mu.Unlock()
		n, began := batch.Len(), time.Now()
		err := c.writeBatch(batch)
		took := time.Since(began)
		batch.Recycle()
		c.Mu.Lock()
		c.Counters.Writes++
		c.finishWrite(err)
		if n >= MinOutput {
			c.tuneOutputLimit(n, took)
		}
	}
}

func (c *Conn) writeBatch(batch *Output) error {
	if c.writer != nil {
		return c.writer.write(batch, true)
	}
	for _, segment := range batch.Segments() {
		if _, err := c.nc.Write(segment); err != nil {
			return err
		}
	}
	return nil
}

// An Owner holds bytes until each reference to them has been released. Retain adds a reference. One
// reference belongs to the Payload.
type Owner interface {
	Retain()
	Release()
}

// A Payload holds content for frames, and the owner of its memory. Owner may be nil.
type Payload struct {
	Data  []byte
	Owner Owner
}

// Release releases a payload that was not put into an Output.
func (p Payload) Release() {
	if p.Owner != nil {
		p.Owner.Release()
	}
}

// An Output holds the frames to be written, in order. Short frames are copied into one buffer, the
// tail. Long payloads are not copied: the segments between slices of the tail refer to them.
type Output struct {
	// Answers counts the bytes of replies to the peer's frames. The state machine limits Answers.
	Answers  int
	segments [][]byte
	owners   []Owner
	buf      []byte // the buffer being filled
	sealed   int    // buf[:sealed] is already in segments
	written  int    // segments[:written] have been written
	size     int
}

// outputs holds empty Outputs for reuse, so that an idle connection needs none.
var outputs = sync.Pool{New: func() any { return new(Output) }}

// NewOutput returns an empty output.
func NewOutput() *Output { return outputs.Get().(*Output) }

// Len returns the number of bytes to be written: 0 if o is nil.
func (o *Output) Len() int {
	if o == nil {
		return 0
	}
	return o.size
}

// Tail returns the buffer for short frames. After appending bytes, pass the buffer to SetTail.
func (o *Output) Tail() []byte { return o.buf }

// SetTail stores buf, which is the tail with bytes appended.
func (o *Output) SetTail(buf []byte) {
	o.size += len(buf) - len(o.buf)
	o.buf = buf
}

// Reference adds data without copying it.
func (o *Output) Reference(data []byte) {
	o.seal()
	o.segments = append(o.segments, data)
	o.size += len(data)
}

// AddOwner makes Recycle release one of the caller's references to the owner of a payload.
func (o *Output) AddOwner(owner Owner) { o.owners = append(o.owners, owner) }

func (o *Output) seal() {
	if len(o.buf) > o.sealed {
		o.segments = append(o.segments, o.buf[o.sealed:len(o.buf):len(o.buf)])
		o.sealed = len(o.buf)
	}
}

// Segments returns the bytes to be written, for a vectored write.
func (o *Output) Segments() [][]byte {
	o.seal()
	return o.segments[o.written:]
}

// DropWritten drops the first n bytes, which have been written.
func (o *Output) DropWritten(n int) {
	o.size -= n
	for ; o.written < len(o.segments); o.written++ {
		left := &o.segments[o.written]
		if n < len(*left) {
			*left = (*left)[n:]
			return
		}
		n -= len(*left)
		*left = nil
	}
}

// Recycle releases the payloads and makes the output available for reuse. o may be nil.
func (o *Output) Recycle() {
	if o == nil {
		return
	}
	for i, owner := range o.owners {
		owner.Release()
		o.owners[i] = nil
	}
	clear(o.segments)
	o.segments, o.owners = o.segments[:0], o.owners[:0]
	if cap(o.buf) > maxRetainedOutput {
		o.buf = nil
	}
	o.buf, o.sealed, o.size, o.written, o.Answers = o.buf[:0], 0, 0, 0, 0
	outputs.Put(o)
}

// maxRetainedOutput limits the size of the buffer that an empty Output keeps.
const maxRetainedOutput = 1 << 20
