package batchio

import (
	"errors"
	"time"
)

// maxFramesPerLock bounds how long the reader holds the lock.
const maxFramesPerLock = 64

// read is the reader's loop. It returns when the socket fails or the peer breaks the
// protocol.
func (c *Conn) read() {
	defer c.running.Done()
	source := func() (int, error) { return c.nc.Read(c.room()) }
	_, wrapped := c.nc.(Transparent) // the wrapper itself makes the first read
	var err error
	for gotData := false; err == nil; gotData = true {
		if c.socket != nil && !c.restful && (gotData || !wrapped) {
			if spin := newSocketReader(c); spin != nil {
				source, c.restful, c.quiet = spin, true, false
			}
		}
		var n int
		n, err = source()
		if n == 0 {
			continue
		}
		c.to += n
		if size := len(c.chunk.Data); c.to == size && size >= firstChunk {
			c.chunkSize = fullChunk
		}
		if c.smallReads++; c.to > firstChunk {
			c.smallReads = 0
		} else if c.smallReads >= shrinkAfter {
			c.chunkSize = firstChunk
		}
		if fault := c.feed(n); fault != nil {
			err = fault
		}
	}
	c.Close(err)
	if c.from = c.to; c.chunk != nil {
		c.dropChunk()
	}
}

var errClosed = errors.New("batchio: connection closed")

// feed passes all whole frames of the chunk, to which n bytes were added, to the state
// machine.
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
		if !c.restful {
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

// throttle makes the reader wait, without the lock, until the output that it must not
// add to is being written. A peer that does not read is thereby not read either: its
// frames wait on its own side. Grpc-go does the same.
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
