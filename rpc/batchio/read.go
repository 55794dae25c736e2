package batchio

import (
	"errors"
	"time"
)

// maxFramesPerLock is the most frames that the reader feeds before it releases the lock.
const maxFramesPerLock = 64

// read is the reader's loop. It returns when the socket fails or the peer breaks the protocol.
func (c *Conn) read() {
	defer c.running.Done()
	source := func() (int, error) { return c.nc.Read(c.readSpace()) }
	_, wrapped := c.nc.(Transparent) // the first read goes through the wrapper
	var err error
	for gotData := false; err == nil; gotData = true {
		if c.socket != nil && !c.callsRest && (gotData || !wrapped) {
			if spin := newSocketReader(c); spin != nil {
				source, c.callsRest, c.quiet = spin, true, false
			}
		}
		var n int
		n, err = source()
		if n == 0 {
			continue
		}
		if fault := c.received(n); fault != nil {
			err = fault
		}
	}
	c.Close(err)
	c.dropAll()
}

// dropAll is called when the reader ends.
func (c *Conn) dropAll() {
	if c.chunk != nil {
		c.dropChunk()
	}
	if c.rest != nil {
		c.rest.Release()
	}
}

// received is called after a read has added n bytes to the chunk. It chooses the size of the next
// chunk, and feeds the machine.
func (c *Conn) received(n int) error {
	c.to += n
	if size := len(c.chunk.Data); c.to == size && size >= firstChunk {
		c.chunkSize = min(2*size, fullChunk)
	}
	if c.smallReads++; c.to > firstChunk {
		c.smallReads = 0
	} else if c.smallReads >= shrinkAfter {
		c.chunkSize = firstChunk
	}
	return c.feed(n)
}

var errClosed = errors.New("batchio: connection closed")

// feed passes all whole frames of the chunk to the state machine, after a read has added n bytes.
func (c *Conn) feed(n int) error {
	now := time.Since(Epoch)
	c.LastRead.Store(int64(now))
	for c.from < c.to {
		c.Mu.Lock()
		if n > 0 {
			c.Counters.Reads++
			c.Counters.BytesIn += uint64(n)
			n = 0
		}
		c.throttle()
		if c.err != nil {
			c.Mu.Unlock()
			return errClosed
		}
		used, err := c.machine.Feed(now, c.chunk.Data[c.from:c.to], maxFramesPerLock)
		c.role.StreamsChanged()
		c.Flush()
		if !c.callsRest {
			c.quiet = c.machine.OpenStreams() == 0
		}
		c.Mu.Unlock()
		c.from += used
		c.role.StartCalls()
		if err != nil {
			return err
		}
		if used == 0 {
			break
		}
	}
	return nil
}

// throttle makes the reader wait, without the lock, until the writer has taken the output. So a
// peer that reads nothing can soon send nothing, as with grpc-go.
func (c *Conn) throttle() {
	for c.err == nil && c.machine.Throttled() {
		c.throttled = true
		c.Flush()
		c.Mu.Unlock()
		<-c.resume
		c.Mu.Lock()
	}
}

func (c *Conn) unthrottle() {
	if c.throttled {
		c.throttled = false
		c.resume <- struct{}{}
	}
}

const (
	// restChunk is the chunk size of a waiting reader that needs memory, for instance under TLS.
	restChunk  = 512
	firstChunk = 32 << 10
	fullChunk  = 512 << 10
	// minRead is the least room for a read. If a chunk has less, the reader takes a new one.
	minRead = 4 << 10
	// shrinkAfter is the number of small reads after which the next chunk is small again.
	shrinkAfter = 256
	// restFactor limits the memory of a waiting reader to a multiple of an incomplete frame's bytes
	// that have come.
	restFactor = 8
)

// Chunk returns the chunk that holds the frames being fed. A message may retain that chunk.
// Messages that stay unread must be copied, because even a short message would retain a long chunk.
func (c *Conn) Chunk() *Buffer { return c.chunk }

// readSpace returns memory for the next read, after the bytes that have not been fed. While
// messages retain the chunk, the reader may write only behind the bytes that it has read.
func (c *Conn) readSpace() []byte {
	size := c.chunkSize
	if c.quiet {
		size = restChunk
	}
	if c.chunk == nil {
		c.takeBack()
	}
	left := c.to - c.from
	if left == 0 && c.chunk != nil {
		switch have := len(c.chunk.Data); {
		case have != size, c.chunk.IsShared() && have-c.to < minRead:
			c.dropChunk()
		case !c.chunk.IsShared():
			c.from, c.to = 0, 0
		}
	}
	if c.chunk == nil {
		c.chunk, c.from, c.to = NewBuffer(size), 0, 0
		c.chunk.lent = &c.lent
	}
	if left > 0 {
		need, have := c.machine.FrameLen(c.chunk.Data[c.from:c.to]), len(c.chunk.Data)
		if c.callsRest {
			size = max(size, need+minRead)
		} else { // the reader will wait with this chunk, so a length must not cost more than its bytes
			size = max(size, min(need+minRead, restFactor*left))
		}
		if have < size || c.from > 0 && (c.from+need > have || have-c.to < minRead) {
			next := NewBuffer(size)
			next.lent = &c.lent
			copy(next.Data, c.chunk.Data[c.from:c.to])
			c.dropChunk()
			c.chunk, c.from, c.to = next, 0, left
		}
	}
	return c.chunk.Data[c.to:]
}

// giveUpChunk is called before the reader waits. It releases the chunk, and keeps the bytes that have
// not been fed in a smaller buffer. If messages retain the chunk, the reader takes the chunk back
// for the next read, unless the last of these messages has been released by then.
func (c *Conn) giveUpChunk() {
	if c.chunk == nil {
		return
	}
	if left := c.to - c.from; left > 0 {
		if cap(c.chunk.Data) <= restFactor*left {
			return // the copy would cost too much
		}
		c.rest = NewBuffer(left)
		copy(c.rest.Data, c.chunk.Data[c.from:c.to])
	}
	if b := c.chunk; b.refs.Load() > 1 {
		b.CountIn(&c.kept)
		c.chunk = nil
		c.lent.Store(b)
		if b.refs.Load() > 1 || !c.lent.CompareAndSwap(b, nil) {
			return
		}
		c.chunk = b
	}
	c.dropChunk()
}

// takeBack ends giveUpChunk. The chunk becomes the lent one, if there still is one, or else the
// rest, or nil.
func (c *Conn) takeBack() {
	c.chunk = c.lent.Swap(nil)
	if c.rest == nil {
		return
	}
	if c.chunk == nil {
		c.chunk, c.from, c.to = c.rest, 0, c.to-c.from
	} else {
		c.rest.Release()
	}
	c.rest = nil
}

func (c *Conn) dropChunk() {
	if c.chunk.IsShared() {
		// If the chunk's last message is released concurrently, kept counts the chunk
		// until the Release below.
		c.chunk.CountIn(&c.kept)
	}
	c.chunk.Release()
	c.chunk = nil
}
