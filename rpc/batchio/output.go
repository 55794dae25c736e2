package batchio

import "sync"

// A Releaser owns bytes. Release is called when they have been written or dropped.
type Releaser interface{ Release() }

// A Payload is content for frames. Owner may be nil.
type Payload struct {
	Data  []byte
	Owner Releaser
}

// Release releases the payload, which was not put into an Output.
func (p Payload) Release() {
	if p.Owner != nil {
		p.Owner.Release()
	}
}

// An Output holds the frames to be written, in order. Short frames are copied into one
// buffer, the tail; long payloads are referenced between slices of it.
type Output struct {
	// Answers counts the bytes of replies to the peer's frames. The state machine limits
	// them.
	Answers  int
	segments [][]byte
	owners   []Releaser
	buf      []byte // the buffer being filled
	sealed   int    // buf[:sealed] is already in segments
	size     int
}

// outputs holds empty Outputs, so that a connection at rest has none.
var outputs = sync.Pool{New: func() any { return new(Output) }}

// NewOutput returns an empty output.
func NewOutput() *Output { return outputs.Get().(*Output) }

// Len returns the number of bytes to be written.
func (o *Output) Len() int { return o.size }

// Tail returns the buffer that short frames are appended to. SetTail makes the appended
// bytes a part of the output.
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

// Own makes Recycle release the owner of a payload, after its last bytes were added.
func (o *Output) Own(owner Releaser) { o.owners = append(o.owners, owner) }

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

// Written drops the first n bytes.
func (o *Output) Written(n int) {
	o.size -= n
	for i, segment := range o.segments {
		if n < len(segment) {
			o.segments[i] = segment[n:]
			return
		}
		n -= len(segment)
		o.segments[i] = nil
	}
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
	o.buf, o.sealed, o.size, o.Answers = o.buf[:0], 0, 0, 0
	outputs.Put(o)
}

// maxRetainedOutput bounds the buffer that is kept after a burst.
const maxRetainedOutput = 1 << 20
