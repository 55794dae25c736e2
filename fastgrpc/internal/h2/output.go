package h2

import "sync"

// A Releaser owns bytes. Release is called when they have been written or dropped.
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

// Output holds the frames to be written, in order. Short frames are copied into one
// buffer; long payloads are referenced between slices of it.
type Output struct {
	segments [][]byte
	owners   []Releaser
	buf      []byte // the buffer being filled
	sealed   int    // buf[:sealed] is in segments already
	size     int
	answers  int // bytes that the peer's frames have provoked
}

// outputs holds empty Outputs, so that a connection at rest has none.
var outputs = sync.Pool{New: func() any { return new(Output) }}

// Len returns the number of bytes to be written.
func (o *Output) Len() int { return o.size }

// appended stores buf, which is o.buf with bytes appended.
func (o *Output) appended(buf []byte) {
	o.size += len(buf) - len(o.buf)
	o.buf = buf
}

// reference adds data without copying it.
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

// Segments returns the bytes to be written, for a vectored write.
func (o *Output) Segments() [][]byte {
	o.seal()
	return o.segments
}

// Written drops the first n bytes, which must be in the first segment.
func (o *Output) Written(n int) {
	o.segments[0] = o.segments[0][n:]
	o.size -= n
}

// Recycle releases the payloads. The output may be reused afterwards, by any connection.
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
	o.buf, o.sealed, o.size, o.answers = o.buf[:0], 0, 0, 0
	outputs.Put(o)
}

// maxRetainedOutput bounds the buffer that is kept after a burst.
const maxRetainedOutput = 1 << 20
