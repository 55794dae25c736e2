package prepared

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service/prepared/http1"
	"wirelab.dev/rpc/batchio"
)

// An h1Conn is an HTTP/1.1 connection. One caller at a time uses it.
//
// On a plain socket, one run of the poller's loop writes the request, waits, and reads the answer.
// So a call costs two system calls. With net.Conn it costs three, because net.Conn tries to read
// before it waits.
type h1Conn struct {
	nc     net.Conn
	socket syscall.RawConn // nil if nc is not a plain socket
	poll   func(fd uintptr) (done bool)
	call   *atomic.Uint64 // the slot's call; if it holds a verdict, reading stops

	parser http1.Parser
	buf    []byte
	from   int // buf[from:to] is not parsed yet
	to     int
	used   int64 // bytes of the answer so far
	filled bool  // the last read filled the buffer

	unsent   []byte     // the part of the request that is not sent yet
	sending  chan error // receives the result of a concurrent send; nil if none is running
	sendErr  error
	answered bool // the server has answered an earlier call
	// onFirstByte is called at the first byte that arrives; nil means that nobody wants to know.
	onFirstByte func()

	// err and the fields below hold the results of pollOnce.
	err  error
	done bool
}

const (
	firstBuffer = 4 << 10
	fullBuffer  = 64 << 10
	// maxBuffer has room for the longest line that the parser accepts.
	maxBuffer = 256 << 10
	// concurrentSendBytes is the smallest size of a request that another goroutine sends while this
	// one reads. A server may answer before it has read the whole request.
	concurrentSendBytes = 16 << 10
	// maxReadsPerPoll limits the reads per poll, so that endless answers do not block a thread.
	maxReadsPerPoll = 16
)

func newH1Conn(nc net.Conn, call *atomic.Uint64) (*h1Conn, error) {
	c := &h1Conn{nc: nc, call: call, buf: make([]byte, firstBuffer)}
	if plain, is := nc.(plainSocket); is && batchio.ReadsNow {
		socket, err := plain.Conn.(syscall.Conn).SyscallConn()
		if err != nil {
			return nil, err
		}
		c.socket, c.poll = socket, c.pollOnce
	}
	return c, nil
}

// exchange sends a request and reads the answer into the parser.
func (c *h1Conn) exchange(r *h1Request) error {
	c.parser.Begin(r.content)
	c.from, c.to, c.used, c.filled = 0, 0, 0, false
	c.unsent, c.err, c.sendErr, c.done = r.bytes, nil, nil, false
	if c.socket != nil {
		c.exchangeSocket()
	} else {
		c.exchangeStream()
	}
	c.endSending()
	if c.done {
		return nil
	}
	return c.answerError()
}

// explainEnd adds the class IdleClosed to the error of a call if the server closed the connection
// after an earlier call, and before it received this one.
func (c *h1Conn) explainEnd(err error) error {
	ended := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
	if !c.answered || !ended || c.to > 0 || c.parser.Started() || !conn.HasUnacknowledged(c.nc) {
		return err
	}
	return failure.WithClass(failure.IdleClosed, fmt.Errorf("the server closed the kept connection before the request reached it: %w", err))
}

// isReusable reports whether another call may use the connection. If bytes follow the answer, no
// other call may use it.
func (c *h1Conn) isReusable() bool {
	return c.done && !c.parser.Close && c.from == c.to && c.sendErr == nil
}

func (c *h1Conn) exchangeSocket() {
	for {
		if err := c.socket.Read(c.poll); err != nil {
			c.err = err
		}
		switch {
		case c.done, c.err != nil:
			return
		case c.call.Load() < uint64(verdictCount):
			c.err = errEnded
			return
		case len(c.unsent) > 0:
			c.sendConcurrently(c.sendSocket)
		default:
			runtime.Gosched()
		}
	}
}

// errEnded is the error of a call that the watch ended. The watch's verdict says why.
var errEnded = errors.New("ended")

// pollOnce is the poller's callback. The poller calls it at once, and again when data may be
// readable, until it returns true. It must write or read at once, because the poller does not
// report older data again.
func (c *h1Conn) pollOnce(fd uintptr) (done bool) {
	if len(c.unsent) > 0 && c.sending == nil {
		n, err := writeNow(fd, c.unsent)
		c.unsent = c.unsent[n:]
		switch {
		case err != nil:
			c.sendErr, c.unsent = err, nil // the server's answer may explain the error
		case len(c.unsent) > 0:
			return true
		default:
			return false
		}
	}
	for range maxReadsPerPoll {
		n, err := readNow(fd, c.readBuffer())
		if err != nil {
			if wouldBlock(err) {
				return false
			}
			c.err = err
			return true
		}
		if c.parseReceived(n, err); c.done || c.err != nil {
			return true
		}
	}
	return true
}

func (c *h1Conn) exchangeStream() {
	if len(c.unsent) < concurrentSendBytes {
		_, c.sendErr = c.nc.Write(c.unsent)
		c.unsent = nil
	} else {
		c.sendConcurrently(func(p []byte) error { _, err := c.nc.Write(p); return err })
	}
	for !c.done && c.err == nil {
		n, err := c.nc.Read(c.readBuffer())
		if c.parseReceived(n, err); c.call.Load() < uint64(verdictCount) && !c.done {
			c.err = errEnded
		}
	}
}

// parseReceived parses n more bytes. If n is 0 and err is nil, the connection has ended.
func (c *h1Conn) parseReceived(n int, err error) {
	c.filled = n == len(c.buf)-c.to
	c.to += n
	if n > 0 && c.onFirstByte != nil {
		c.onFirstByte()
		c.onFirstByte = nil
	}
	used, done, fault := c.parser.Feed(c.buf[c.from:c.to])
	c.from += used
	c.used += int64(used)
	switch {
	case fault != nil:
		c.err = fault
	case done:
		c.done = true
	case n > 0 && err == nil:
	case n == 0 && err == nil, errors.Is(err, io.EOF):
		c.err = c.parser.End()
		c.done = c.err == nil
	default:
		c.err = err
	}
}

// readBuffer returns memory for the next read, after the bytes that are not parsed yet.
func (c *h1Conn) readBuffer() []byte {
	left := c.to - c.from
	size := len(c.buf)
	if left == size && size < maxBuffer || c.filled && size < fullBuffer {
		size *= 2
	}
	switch {
	case size > len(c.buf):
		larger := make([]byte, size)
		copy(larger, c.buf[c.from:c.to])
		c.buf = larger
	case left > 0:
		copy(c.buf, c.buf[c.from:c.to])
	}
	c.from, c.to, c.filled = 0, left, false
	return c.buf[c.to:]
}

// sendConcurrently starts a goroutine that sends the rest of the request while this one reads the
// answer. endSending waits for that goroutine.
func (c *h1Conn) sendConcurrently(send func([]byte) error) {
	rest := c.unsent
	c.unsent = nil
	c.sending = make(chan error, 1)
	go func() { c.sending <- send(rest) }()
}

func (c *h1Conn) sendSocket(rest []byte) error {
	var failed error
	err := c.socket.Write(func(fd uintptr) bool {
		for len(rest) > 0 {
			n, err := writeNow(fd, rest)
			if err != nil {
				failed = err
				return true
			}
			if rest = rest[n:]; n == 0 {
				return false
			}
		}
		return true
	})
	return errors.Join(err, failed)
}

// endSending ends a concurrent send. If the answer came before the whole request was sent,
// endSending closes the connection, because the server would take the rest for another request.
// Before that, the running write gets sendGrace to end.
func (c *h1Conn) endSending() {
	if c.sending == nil {
		return
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(sendGrace))
	if c.sendErr = <-c.sending; c.sendErr == nil {
		_ = c.nc.SetWriteDeadline(time.Time{})
	}
	c.sending = nil
}

const sendGrace = 10 * time.Millisecond

func (c *h1Conn) answerError() error {
	if err := conn.CheckCleartext(c.buf[:c.to]); err != nil {
		return err
	}
	switch {
	case errors.Is(c.err, http1.ErrMalformed):
		return failure.WithClass(failure.WrongProtocol, c.err)
	case errors.Is(c.err, io.EOF):
		return fmt.Errorf("the server closed the connection without an answer: %w", io.ErrUnexpectedEOF)
	case errors.Is(c.err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the server closed the connection in the middle of an answer, after %d bytes of the answer's body: %w", c.parser.Bytes, c.err)
	}
	return fmt.Errorf("read the answer: %w", c.err)
}

// writeNow writes as many bytes as the socket accepts without waiting, maybe none.
func writeNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := batchio.WriteNow(fd, p)
		switch {
		case err == nil:
			return n, nil
		case wouldBlock(err):
			return 0, nil
		case !errors.Is(err, syscall.EINTR):
			return 0, err
		}
	}
}

// readNow reads the bytes that have arrived. It returns 0 and nil if the connection has ended.
func readNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := batchio.ReadNow(fd, p)
		if err == nil || err != syscall.EINTR { //nolint:errorlint // a plain errno, compared at every read
			return n, err
		}
	}
}

// wouldBlock reports whether a read or write would have to wait.
func wouldBlock(err error) bool {
	return err == syscall.EAGAIN //nolint:errorlint // a plain errno, compared at every read
}
