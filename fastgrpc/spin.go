//go:build unix

package fastgrpc

import (
	"io"
	"net"
	"runtime"
	"syscall"
	"time"
)

// spinner reads from a socket and, before it lets the thread sleep for more, looks
// again for a moment: to put a thread to sleep and wake it costs both ends more than
// that, on virtual machines several times more. With one caller it was measured to
// quarter the latency and to halve the CPU time. It gives up the habit for a while
// when it does not pay, so a connection with rare calls spends next to nothing.
type spinner struct {
	raw    syscall.RawConn
	try    func(fd uintptr) bool
	buf    []byte
	wait   bool // for something to read
	n      int
	err    error
	misses int // spins in a row that found nothing
	skip   int // reads to come that do not spin
	pause  int // as many as were skipped last: twice as many each time that it did not pay
	short  int // reads in a row that brought little
}

const (
	longestSpin = 50 * time.Microsecond
	mostMisses  = 4
	leastPause  = 16
	mostPause   = 4096
	// A connection with a few small calls gains most, but only if both ends spin: there
	// the pauses stay short, or the ends would not meet.
	fewCalls = 512 // bytes
	fewReads = 8
)

// newSocketReader returns what the reader reads from. Only a socket may be read
// behind its connection's back: one under TLS holds ciphertext.
func newSocketReader(nc net.Conn) io.Reader {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return nc
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nc
	}
	s := &spinner{raw: raw}
	s.try = s.tryOnce
	return s
}

// tryOnce reads what is there; false asks to be called again when something is.
func (s *spinner) tryOnce(fd uintptr) (done bool) {
	for {
		s.n, s.err = readSocket(int(fd), s.buf)
		if s.err != syscall.EINTR { //nolint:errorlint // a bare errno, looked at once a spin
			return s.err != syscall.EAGAIN || !s.wait //nolint:errorlint // likewise
		}
	}
}

// Read returns what is there, or what comes within a moment, or waits.
func (s *spinner) Read(p []byte) (int, error) {
	s.buf = p
	n, err := s.spin()
	s.buf = nil
	if s.short++; n > fewCalls {
		s.short = 0
	}
	if s.short >= fewReads {
		s.pause, s.skip = min(s.pause, leastPause), min(s.skip, leastPause)
	}
	return n, err
}

func (s *spinner) spin() (int, error) {
	if s.skip > 0 {
		s.skip--
		return s.read(true)
	}
	began := time.Time{}
	for {
		n, err := s.read(false)
		switch {
		case err != syscall.EAGAIN: //nolint:errorlint // a bare errno, looked at once a spin
			if !began.IsZero() {
				s.misses, s.pause = 0, s.pause/2
			}
			return n, err
		case began.IsZero():
			began = time.Now()
		case time.Since(began) > longestSpin:
			if s.misses++; s.misses >= mostMisses {
				s.misses = 0
				s.pause = min(max(leastPause, 2*s.pause), mostPause)
				s.skip = s.pause
			}
			return s.read(true)
		}
		runtime.Gosched()
	}
}

// read reads once; where it may not wait, EAGAIN says that nothing was there.
func (s *spinner) read(wait bool) (int, error) {
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
