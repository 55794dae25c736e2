package stack

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindWithoutPort has bind(2) take the address alone (ip(7),
// IP_BIND_ADDRESS_NO_PORT): the port is chosen when the connection is made, and
// need then differ only from those to the same destination. A port that bind
// chose would be taken for all destinations at once.
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

// spreads says that loopback has more than one address here.
const spreads = true
