//go:build unix

package batchio

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"
)

// Spin returns a connection whose reads look for data for up to so long before they let the
// thread sleep; nc itself where it is no socket, or most is 0. A Conn that gets it reads its
// socket so, and lets callers write what they have queued.
func Spin(nc net.Conn, most time.Duration) net.Conn {
	if socketOf(nc) == nil || most <= 0 {
		return nc
	}
	raw := rawConn(nc)
	if raw == nil {
		return nc
	}
	return &spinConn{Conn: nc, raw: raw, most: most}
}

// spinConn is a socket that is read by spinning, as by TLS above it.
type spinConn struct {
	net.Conn
	raw  syscall.RawConn
	most time.Duration
}

var _ Transparent = (*spinConn)(nil)

// Socket returns what it reads from.
func (s *spinConn) Socket() net.Conn { return s.Conn }

// Read reads what is there.
func (s *spinConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return spinUpTo(s.most, func(wait bool) (n int, err error) {
		failed := s.raw.Read(func(fd uintptr) bool {
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
	})
}

// spinUpTo reads until there is something, and after so long waits for it.
func spinUpTo(most time.Duration, once func(wait bool) (int, error)) (int, error) {
	for began := time.Now(); ; runtime.Gosched() {
		n, err := once(false)
		if err != syscall.EAGAIN { //nolint:errorlint // a bare errno, looked at once a spin
			return n, err
		}
		if time.Since(began) > most {
			return once(true)
		}
	}
}
