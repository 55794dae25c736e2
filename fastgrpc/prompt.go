//go:build unix

package fastgrpc

import (
	"net"
	"syscall"
)

// prompt writes to a socket what it takes without waiting. Writes must not overlap.
type prompt struct {
	raw syscall.RawConn
	try func(fd uintptr) bool
	buf []byte
	n   int
	err error
}

// newPrompt returns nil where nc does not offer its descriptor.
func newPrompt(nc net.Conn) *prompt {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	p := &prompt{raw: raw}
	p.try = func(fd uintptr) bool {
		p.n, p.err = syscall.Write(int(fd), p.buf)
		return true // never wait
	}
	return p
}

// write returns how much was written, which may be nothing.
func (p *prompt) write(data []byte) (int, error) {
	p.buf = data
	err := p.raw.Write(p.try)
	p.buf = nil
	switch {
	case err != nil:
		return 0, err
	case p.err == nil:
		return p.n, nil
	case p.err == syscall.EAGAIN, p.err == syscall.EINTR: //nolint:errorlint // the bare errno of the write above
		return 0, nil
	}
	return 0, p.err
}
