package failure

import (
	"errors"
	"net"
	"syscall"
)

// ofKernel reads the error numbers (errno(3)).
func ofKernel(err error) Class {
	is := func(numbers ...syscall.Errno) bool {
		for _, number := range numbers {
			if errors.Is(err, number) {
				return true
			}
		}
		return false
	}
	switch {
	// connect(2) has no port for the address, bind(2) none at all.
	case is(syscall.EADDRNOTAVAIL, syscall.EADDRINUSE):
		return PortExhaustion
	case is(syscall.EMFILE, syscall.ENFILE):
		return DescriptorLimit
	case is(syscall.ECONNREFUSED):
		return Refused
	case is(syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED):
		return Reset
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" && dial.Timeout() {
		return ofSilence(dial.Addr)
	}
	if is(syscall.ETIMEDOUT) { // of a connection that there was
		return Silent
	}
	return ""
}

// ofSilence says why a SYN was not answered. Loopback loses nothing; what it
// drops, a queue had no room for. (The other explanation is a client so short of
// CPU that it did not come to see the answer.)
func ofSilence(address net.Addr) Class {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return Backlog
	}
	return ConnectTimeout
}
