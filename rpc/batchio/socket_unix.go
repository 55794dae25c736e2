//go:build unix

package batchio

import (
	"cmp"
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"
)

// ReadsNow reports whether ReadNow and WriteNow work on this system.
const ReadsNow = true

// ReadNow reads the bytes that a socket holds, for loops outside this package. It returns
// EAGAIN if there are none, and 0 bytes at the end of the connection. It never waits.
func ReadNow(fd uintptr, p []byte) (int, error) { return readSocket(int(fd), p) }

// WriteNow writes as much as a socket has room for, or returns EAGAIN. It never waits.
func WriteNow(fd uintptr, p []byte) (int, error) { return writeSocket(int(fd), p) }

// A socketWriter writes to a socket's file descriptor directly, so that a write can return
// instead of waiting. Writes must not overlap.
type socketWriter struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool
	out  *Output
	wait bool // the write waits while the socket's buffer is full
	err  error
}

// tcpUserTimeout is TCP_USER_TIMEOUT of <linux/tcp.h>, which package syscall lacks.
const tcpUserTimeout = 18

// SetUserTimeout makes Linux end a TCP connection whose peer acknowledges nothing for that time.
// Without the timeout, Linux notices a vanished peer only after many retransmissions. Other
// systems have no such option.
func SetUserTimeout(nc net.Conn, timeout time.Duration) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok || runtime.GOOS != "linux" {
		return
	}
	if raw := rawConn(tcp); raw != nil {
		_ = raw.Control(func(fd uintptr) {
			// An error does no harm: pings also find a vanished peer, only later.
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(timeout/time.Millisecond))
		})
	}
}

// rawConn returns nc's raw connection, or nil if nc has no file descriptor.
func rawConn(nc net.Conn) syscall.RawConn {
	if socket, ok := nc.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// newSocketWriter returns a writer for nc, or nil if nc has no file descriptor.
func newSocketWriter(nc net.Conn) *socketWriter {
	raw := rawConn(nc)
	if raw == nil {
		return nil
	}
	w := &socketWriter{raw: raw}
	w.try = w.tryOnce
	return w
}

// tryOnce writes until the socket's buffer is full, and then returns false to be called again.
func (w *socketWriter) tryOnce(fd uintptr) (done bool) {
	for w.out.Len() > 0 && w.err == nil {
		var n int
		var err error
		if segments := w.out.Segments(); len(segments) == 1 {
			n, err = writeSocket(int(fd), segments[0])
		} else {
			n, err = writeSegments(int(fd), segments)
		}
		switch {
		case err == nil:
			w.out.DropWritten(n)
		case errors.Is(err, syscall.EAGAIN):
			return !w.wait
		case !errors.Is(err, syscall.EINTR):
			w.err = err
		}
	}
	return true
}

// write writes out, and drops from it what has been written. If wait is false, it writes only as much
// as the socket accepts without waiting, which may be nothing.
func (w *socketWriter) write(out *Output, wait bool) error {
	w.out, w.wait, w.err = out, wait, nil
	err := w.raw.Write(w.try)
	w.out = nil
	return cmp.Or(err, w.err)
}

// A spinner reads from a socket. If there is nothing to read, it spins: it polls for up to maxSpin
// before it lets the thread sleep. Sleeping and waking cost both ends more time than maxSpin, on
// virtual machines several times more. With one caller, spinning was measured to cut latency to a
// quarter and CPU time to half. If spins repeatedly find nothing, the next reads do not spin. Nor does
// a read whose predecessor took longer than maxGap. So a connection with rare calls spends almost no
// time on spinning.
type spinner struct {
	raw    syscall.RawConn
	try    func(fd uintptr) bool
	to     *Conn
	wait   bool // the read waits until there is something to read
	n      int
	err    error
	misses int   // consecutive spins that found nothing
	skip   int   // number of the next reads that must not spin
	pause  int   // the last initial value of skip; it doubles with each pause
	short  int   // consecutive reads of at most shortRead bytes
	last   int64 // value of Conn.LastRead at the last read
}

const (
	maxSpin   = 50 * time.Microsecond
	maxGap    = time.Millisecond
	maxMisses = 4
	minPause  = 16
	maxPause  = 4096
	// After shortReadsInRow reads of at most shortRead bytes, the reader limits its pauses to
	// minPause. Such connections gain most from spinning, but only while both ends spin.
	shortRead       = 512 // bytes
	shortReadsInRow = 8
)

// newSocketReader returns a new spinner's read, or nil if c's socket has no file descriptor.
func newSocketReader(c *Conn) func() (int, error) {
	raw := rawConn(c.socket)
	if raw == nil {
		return nil
	}
	s := &spinner{raw: raw, to: c, skip: 1} // no spin at first: a new connection may stay silent
	s.try = s.tryOnce
	return s.read
}

// tryOnce reads the bytes that have arrived. If there are none, it gives the chunk up and returns
// false. The runtime then calls tryOnce again when bytes have arrived.
func (s *spinner) tryOnce(fd uintptr) (done bool) {
	for {
		s.n, s.err = readSocket(int(fd), s.to.readSpace())
		if s.err == syscall.EINTR { //nolint:errorlint // a bare errno, compared once per spin
			continue
		}
		if done = s.err != syscall.EAGAIN || !s.wait; !done { //nolint:errorlint // likewise
			s.to.giveUpChunk()
		}
		return done
	}
}

// read polls first, if polling has found data lately. Then it waits for data.
func (s *spinner) read() (int, error) {
	n, err := s.spin()
	if s.short++; n > shortRead {
		s.short = 0
	}
	if s.short >= shortReadsInRow {
		s.pause, s.skip = min(s.pause, minPause), min(s.skip, minPause)
	}
	return n, err
}

func (s *spinner) spin() (int, error) {
	if most := s.to.spinFor; most > 0 {
		return spinUpTo(most, s.readOnce)
	}
	if s.to.sleeps {
		return s.readOnce(true)
	}
	if !s.mayPoll() {
		return s.readOnce(true)
	}
	began := time.Time{}
	for {
		n, err := s.readOnce(false)
		switch {
		case err != syscall.EAGAIN: //nolint:errorlint // a bare errno, compared once per spin
			if !began.IsZero() {
				s.misses, s.pause = 0, s.pause/2
			}
			return n, err
		case began.IsZero():
			began = time.Now()
		case time.Since(began) > maxSpin:
			if s.misses++; s.misses >= maxMisses {
				s.misses = 0
				s.pause = min(max(minPause, 2*s.pause), maxPause)
				s.skip = s.pause
			}
			return s.readOnce(true)
		}
		runtime.Gosched()
	}
}

// mayPoll reports whether the next read polls.
func (s *spinner) mayPoll() bool {
	last := s.to.LastRead.Load()
	gap := time.Duration(last - s.last)
	s.last = last
	if s.skip > 0 {
		s.skip--
		return false
	}
	return gap <= maxGap
}

// readOnce reads once. Without wait, it returns EAGAIN if there is nothing to read.
func (s *spinner) readOnce(wait bool) (int, error) {
	s.wait = wait
	switch err := s.raw.Read(s.try); {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, s.err
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// Spin returns a connection whose reads poll for data, for at most the duration most, before the
// thread sleeps. It returns nc itself if nc is not a socket or most is 0. A Conn on such a
// connection polls its socket in the same way, and lets callers write their own frames.
func Spin(nc net.Conn, most time.Duration) net.Conn {
	if socketOf(nc) == nil || most <= 0 {
		return nc
	}
	return direct(nc, most)
}

// Direct returns a connection that reads and writes with the system calls of this package. It suits a
// library, such as TLS, that reads and writes short records through a net.Conn. It returns nc itself
// if nc is not a socket.
func Direct(nc net.Conn) net.Conn {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn: // no wrapper, which must see every byte
		return direct(nc, 0)
	}
	return nc
}

func direct(nc net.Conn, spin time.Duration) net.Conn {
	raw := rawConn(nc)
	if raw == nil {
		return nc
	}
	return &directConn{Conn: nc, raw: raw, spin: spin}
}

// A directConn is a socket whose reads and writes use this package's system calls.
type directConn struct {
	net.Conn
	raw  syscall.RawConn
	spin time.Duration // how long a read polls
}

var _ Transparent = (*directConn)(nil)

// Socket implements Transparent.
func (c *directConn) Socket() net.Conn { return c.Conn }

// SyscallConn implements syscall.Conn, as the socket itself does.
func (c *directConn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Read implements net.Conn.
func (c *directConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return spinUpTo(c.spin, func(wait bool) (int, error) { return readRaw(c.raw, p, wait) })
}

// Write implements net.Conn.
func (c *directConn) Write(p []byte) (n int, err error) {
	failed := c.raw.Write(func(fd uintptr) bool {
		for n < len(p) && err == nil {
			var sent int
			sent, err = writeSocket(int(fd), p[n:])
			n += max(sent, 0)
			switch {
			case errors.Is(err, syscall.EAGAIN):
				err = nil
				return false
			case errors.Is(err, syscall.EINTR):
				err = nil
			}
		}
		return true
	})
	return n, cmp.Or(failed, err)
}

// Read reads as nc.Read does. It never waits in a system call, even if somebody has set a socket's
// descriptor to blocking mode, so that nc.Close always ends it.
func Read(nc net.Conn, p []byte) (int, error) {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw := rawConn(nc); raw != nil {
			return readRaw(raw, p, true)
		}
	}
	return nc.Read(p)
}

// readRaw reads from a socket. Without wait, it returns EAGAIN if there is nothing to read.
func readRaw(raw syscall.RawConn, p []byte, wait bool) (n int, err error) {
	failed := raw.Read(func(fd uintptr) bool {
		n, err = readSocket(int(fd), p)
		for errors.Is(err, syscall.EINTR) {
			n, err = readSocket(int(fd), p)
		}
		return !wait || !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case failed != nil:
		return 0, failed
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// spinUpTo calls once(false) repeatedly until once reads data, or the time most is over.
func spinUpTo(most time.Duration, once func(wait bool) (int, error)) (int, error) {
	if most <= 0 {
		return once(true)
	}
	for began := time.Now(); ; runtime.Gosched() {
		n, err := once(false)
		if err != syscall.EAGAIN { //nolint:errorlint // a bare errno, compared once per spin
			return n, err
		}
		if time.Since(began) > most {
			return once(true)
		}
	}
}
