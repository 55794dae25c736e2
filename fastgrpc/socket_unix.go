//go:build unix

package fastgrpc

import (
	"errors"
	"net"
	"syscall"
)

// socketWriter writes to a socket's file descriptor directly, so that a write can return
// instead of waiting. Writes must not overlap.
type socketWriter struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool
	buf  []byte // the rest to write
	wait bool   // wait while the socket's buffer is full
	err  error
}

// rawConn returns nil if nc has no file descriptor.
func rawConn(nc net.Conn) syscall.RawConn {
	if socket, ok := nc.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// newSocketWriter returns nil if nc has no file descriptor.
func newSocketWriter(nc net.Conn) *socketWriter {
	raw := rawConn(nc)
	if raw == nil {
		return nil
	}
	w := &socketWriter{raw: raw}
	w.try = w.tryOnce
	return w
}

// tryOnce writes until the socket's buffer is full. It returns false to be called again
// when there is room.
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

// tryWrite writes what the socket accepts without waiting, which may be nothing.
func (w *socketWriter) tryWrite(data []byte) (int, error) { return w.write(data, false) }

// writeAll writes all of data and waits for room if needed.
func (w *socketWriter) writeAll(data []byte) error {
	_, err := w.write(data, true)
	return err
}
