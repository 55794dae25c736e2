package h2

// A Releaser is told when the bytes it owns have been written or dropped.
type Releaser interface{ Release() }

// Payload is content for DATA frames. Owner may be nil.
type Payload struct {
	Data  []byte
	Owner Releaser
}

func (p Payload) release() {
	if p.Owner != nil {
		p.Owner.Release()
	}
}

// Output is what waits to be written, in order: short things copied into one
// buffer, long payloads by reference between slices of it.
type Output struct {
	segments [][]byte
	owners   []Releaser
	buf      []byte // the buffer being filled
	sealed   int    // buf[:sealed] is in segments already
	size     int
}

// Len is the number of bytes that wait.
func (o *Output) Len() int { return o.size }

// appended accounts for bytes put at the end of buf.
func (o *Output) appended(buf []byte) {
	o.size += len(buf) - len(o.buf)
	o.buf = buf
}

// reference queues data without copying it.
func (o *Output) reference(data []byte) {
	o.seal()
	o.segments = append(o.segments, data)
	o.size += len(data)
}

func (o *Output) seal() {
	if len(o.buf) > o.sealed {
		o.segments = append(o.segments, o.buf[o.sealed:len(o.buf):len(o.buf)])
		o.sealed = len(o.buf)
	}
}

// Segments returns all that waits, for a vectored write.
func (o *Output) Segments() [][]byte {
	o.seal()
	return o.segments
}

// Written drops the first n bytes, which must be of the first segment.
func (o *Output) Written(n int) {
	o.segments[0] = o.segments[0][n:]
	o.size -= n
}

// Recycle empties the output and releases its payloads; its buffers serve again.
func (o *Output) Recycle() {
	for i, owner := range o.owners {
		owner.Release()
		o.owners[i] = nil
	}
	clear(o.segments)
	o.segments, o.owners = o.segments[:0], o.owners[:0]
	if cap(o.buf) > maxRetainedOutput {
		o.buf = nil
	}
	o.buf, o.sealed, o.size = o.buf[:0], 0, 0
}

// maxRetainedOutput keeps one burst from holding its memory for good.
const maxRetainedOutput = 1 << 20
