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

// Spin returns a connection whose reads poll for data, for the duration most, before they
// let the thread sleep. It returns nc itself if nc is not a socket or most is 0. A Conn with
// such a connection reads its socket in this way, and lets callers write their own frames.
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

// A spinConn is a socket whose reads poll, for readers such as TLS.
type spinConn struct {
	net.Conn
	raw  syscall.RawConn
	most time.Duration
}

var _ Transparent = (*spinConn)(nil)

// Socket implements Transparent.
func (s *spinConn) Socket() net.Conn { return s.Conn }

// Read implements net.Conn.
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

// spinUpTo calls once without waiting until it reads something, and after the duration most
// lets it wait.
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
