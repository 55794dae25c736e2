package batchio

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of <linux/tcp.h>, which package syscall lacks.
const tcpUserTimeout = 18

// SetUserTimeout makes the kernel end a TCP connection whose peer acknowledges nothing for
// the duration of timeout. Without it, a vanished peer is noticed only after many retransmissions
// while there is something to send.
func SetUserTimeout(nc net.Conn, timeout time.Duration) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			// Pings find the vanished peer too, only later.
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(timeout/time.Millisecond))
		})
	}
}
