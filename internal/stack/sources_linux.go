package stack

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindWithoutPort makes bind(2) bind only the address (ip(7),
// IP_BIND_ADDRESS_NO_PORT). The kernel then chooses the port in connect(2), and it
// need be unique only for that destination. A port chosen by bind would be taken
// for all destinations.
func bindWithoutPort(_, _ string, conn syscall.RawConn) error {
	var refused error
	err := conn.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	if err != nil {
		return err
	}
	return refused
}

// manyLoopbackAddresses reports whether all of 127.0.0.0/8 can be used here.
const manyLoopbackAddresses = true
