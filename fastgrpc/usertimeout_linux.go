package fastgrpc

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of <linux/tcp.h>, which package syscall lacks.
const tcpUserTimeout = 18

// setUserTimeout makes the kernel end a TCP connection whose peer acknowledges nothing
// for the keepalive timeout, as grpc-go does if there are pings (gRFC A18). Without it, a
// vanished peer is noticed only after many retransmissions while there is something to
// send.
func setUserTimeout(nc net.Conn, pingEvery, timeout time.Duration) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok || pingEvery == forever {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			// Pings find the vanished peer too, only later.
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(timeout/time.Millisecond))
		})
	}
}
