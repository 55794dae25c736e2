package batchio

const (
	// restChunk is for readers that need memory while they wait, under TLS for instance.
	restChunk  = 512
	firstChunk = 32 << 10
	fullChunk  = 512 << 10
	// minRead is the least room for a read; with less, the reader takes a new chunk.
	minRead = 4 << 10
	// shrinkAfter is the number of small reads after which a large chunk is given back.
	shrinkAfter = 256
)

// Chunk returns the chunk that holds the frames being fed, which a message may retain. A
// short message may retain a long chunk, so messages that nobody reads must be copied.
func (c *Conn) Chunk() *Buffer { return c.chunk }

// room returns memory for the next read, behind the bytes that have not been used. While
// messages retain the chunk, only its unused end may be written.
func (c *Conn) room() []byte {
	size := c.chunkSize
	if c.quiet {
		size = restChunk
	}
	if c.chunk == nil {
		c.chunk = c.lent.Swap(nil)
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
		if c.from+need > have || have-c.to < minRead || have < size {
			next := NewBuffer(max(size, need+minRead))
			next.lent = &c.lent
			copy(next.Data, c.chunk.Data[c.from:c.to])
			c.dropChunk()
			c.chunk, c.from, c.to = next, 0, left
		}
	}
	return c.chunk.Data[c.to:]
}

// rest gives the chunk back if all of it has been used, because the reader will wait.
// While messages retain it, it is lent: the reader takes it back when there is more to read,
// unless the last message has been released by then.
func (c *Conn) rest() {
	if c.chunk == nil || c.from < c.to {
		return
	}
	if b := c.chunk; b.refs.Load() > 1 {
		b.Keep(&c.kept)
		c.chunk = nil
		c.lent.Store(b)
		if b.refs.Load() > 1 || !c.lent.CompareAndSwap(b, nil) {
			return
		}
		c.chunk = b
	}
	c.dropChunk()
}

func (c *Conn) dropChunk() {
	if c.chunk.IsShared() {
		// If its last message is released concurrently, its cost is counted until the
		// Release below.
		c.chunk.Keep(&c.kept)
	}
	c.chunk.Release()
	c.chunk = nil
}
