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

// An h1Conn is a connection of HTTP/1.1, which one caller at a time uses.
//
// A socket is used in its poller's own loop, which writes the request, waits, and reads. So a
// call costs two system calls. net.Conn needs a third: it reads first to find out that it must
// wait.
type h1Conn struct {
	nc     net.Conn
	socket syscall.RawConn // nil: nc is no plain socket
	poll   func(fd uintptr) (done bool)
	call   *atomic.Uint64 // the slot's call: a verdict in it ends the reading

	parser http1.Parser
	buf    []byte
	from   int // buf[from:to] has not been parsed
	to     int
	filled bool // the last read filled the buffer

	unsent   []byte     // the rest of the request
	sending  chan error // receives the end of sending beside the reading; nil if there is none
	sendErr  error
	answered bool // the server has answered a call

	// The results of poll.
	err  error
	done bool
}

const (
	firstBuffer = 4 << 10
	fullBuffer  = 64 << 10
	// maxBuffer holds the longest line that the parser accepts.
	maxBuffer = 256 << 10
	// sendApart is the length from which a request is sent beside the reading if it may
	// have to wait: a server may answer and read no further.
	sendApart = 16 << 10
	// readsAtOnce bounds the time that a call keeps its thread while an answer never ends.
	readsAtOnce = 16
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
	c.from, c.to, c.filled = 0, 0, false
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
	return c.explain()
}

// isFresh reports whether no byte of an answer has come.
func (c *h1Conn) isFresh() bool { return c.to == 0 && !c.parser.Started() }

// canGoOn reports whether another call may follow: not if bytes came behind the answer.
func (c *h1Conn) canGoOn() bool {
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
		case c.call.Load() < uint64(verdicts):
			c.err = errEnded
			return
		case len(c.unsent) > 0:
			c.sendBeside(c.sendSocket)
		default:
			runtime.Gosched()
		}
	}
}

// errEnded is the error of a call that the watch ended. The verdict holds the reason.
var errEnded = errors.New("ended")

// pollOnce is called by the poller at once, and again when there may be something to read, until
// it returns true. Data from before the first call is not reported again, so it must write or
// read at once.
func (c *h1Conn) pollOnce(fd uintptr) (done bool) {
	if len(c.unsent) > 0 && c.sending == nil {
		n, err := writeNow(fd, c.unsent)
		c.unsent = c.unsent[n:]
		switch {
		case err != nil:
			c.sendErr, c.unsent = err, nil // an answer may explain it
		case len(c.unsent) > 0:
			return true
		default:
			return false
		}
	}
	for range readsAtOnce {
		n, err := readNow(fd, c.room())
		if err != nil {
			if isAgain(err) {
				return false
			}
			c.err = err
			return true
		}
		if c.received(n, err); c.done || c.err != nil {
			return true
		}
	}
	return true
}

func (c *h1Conn) exchangeStream() {
	if len(c.unsent) < sendApart {
		_, c.sendErr = c.nc.Write(c.unsent)
		c.unsent = nil
	} else {
		c.sendBeside(func(p []byte) error { _, err := c.nc.Write(p); return err })
	}
	for !c.done && c.err == nil {
		n, err := c.nc.Read(c.room())
		if c.received(n, err); c.call.Load() < uint64(verdicts) && !c.done {
			c.err = errEnded
		}
	}
}

// received parses n more bytes. No bytes and no error mean the connection's end.
func (c *h1Conn) received(n int, err error) {
	c.filled = n == len(c.buf)-c.to
	c.to += n
	used, done, fault := c.parser.Feed(c.buf[c.from:c.to])
	c.from += used
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

// room returns memory for the next read, behind the bytes that have not been parsed.
func (c *h1Conn) room() []byte {
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

// sendBeside sends the rest while the answer is read. endSending waits for it.
func (c *h1Conn) sendBeside(send func([]byte) error) {
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

// endSending ends the sending beside the reading. If the answer came first, the connection is
// closed: the rest would be taken for another request. The deadline leaves time for a write that
// is about to end.
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

// explain returns the error of a call without a whole answer.
func (c *h1Conn) explain() error {
	if err := conn.CheckCleartext(c.buf[:c.to]); err != nil {
		return err
	}
	switch {
	case errors.Is(c.err, http1.ErrMalformed):
		return failure.As(failure.WrongProtocol, c.err)
	case errors.Is(c.err, io.EOF):
		return fmt.Errorf("the server closed the connection without an answer: %w", io.ErrUnexpectedEOF)
	case errors.Is(c.err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the server closed the connection in the middle of an answer, after %d bytes of its body: %w", c.parser.Bytes, c.err)
	}
	return fmt.Errorf("read the answer: %w", c.err)
}

// writeNow writes as much as the socket has room for, which may be nothing.
func writeNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := batchio.WriteNow(fd, p)
		switch {
		case err == nil:
			return n, nil
		case isAgain(err):
			return 0, nil
		case !errors.Is(err, syscall.EINTR):
			return 0, err
		}
	}
}

// readNow reads the bytes that have come. No bytes and no error mean the connection's end.
func readNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := batchio.ReadNow(fd, p)
		if err == nil || err != syscall.EINTR { //nolint:errorlint // a bare errno, compared once per read
			return n, err
		}
	}
}

// isAgain reports whether there is nothing to read or no room to write.
func isAgain(err error) bool {
	return err == syscall.EAGAIN //nolint:errorlint // a bare errno, compared once per read
}
