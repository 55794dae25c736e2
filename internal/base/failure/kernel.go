package failure

import (
	"errors"
	"net"
	"syscall"
)

// ofKernel classifies error numbers (errno(3)).
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
	// connect(2) finds no port for the address, bind(2) finds none at all.
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
	if is(syscall.ETIMEDOUT) { // of an open connection
		return Silent
	}
	return ""
}

// ofSilence classifies a SYN that was not answered. Loopback drops a SYN only if a
// queue is full. (Or the client got too little CPU time to see the answer.)
func ofSilence(address net.Addr) Class {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return Backlog
	}
	return ConnectTimeout
}
