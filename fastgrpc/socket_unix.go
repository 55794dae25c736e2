//go:build unix

package fastgrpc

import (
	"errors"
	"net"
	"syscall"
)

// socketWriter writes to a socket behind its connection's back. Writes must not
// overlap.
type socketWriter struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool
	buf  []byte // what is left to write
	wait bool   // for room, when the socket has none
	err  error
}

// newSocketWriter returns nil where nc does not offer its descriptor.
func newSocketWriter(nc net.Conn) *socketWriter {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	w := &socketWriter{raw: raw}
	w.try = w.tryOnce
	return w
}

// tryOnce writes what the socket takes; false asks to be called again when it takes
// more.
func (w *socketWriter) tryOnce(fd uintptr) (done bool) {
	for len(w.buf) > 0 && w.err == nil {
		n, err := writeSocket(int(fd), w.buf)
		switch {
		case err == nil:
			w.buf = w.buf[n:]
		case errors.Is(err, syscall.EAGAIN):
			return !w.wait
		case !errors.Is(err, syscall.EINTR):
			w.err = err
		}
	}
	return true
}

func (w *socketWriter) write(data []byte, wait bool) (int, error) {
	w.buf, w.wait, w.err = data, wait, nil
	err := w.raw.Write(w.try)
	n := len(data) - len(w.buf)
	w.buf = nil
	if err == nil && w.err != nil {
		err = w.err
	}
	return n, err
}

// writeNow writes what the socket takes without waiting, which may be nothing.
func (w *socketWriter) writeNow(data []byte) (int, error) { return w.write(data, false) }

// writeAll waits for room.
func (w *socketWriter) writeAll(data []byte) error {
	_, err := w.write(data, true)
	return err
}
