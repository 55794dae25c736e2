package fastgrpc

import (
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc/keepalive"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of <linux/tcp.h>, which package syscall lacks.
const tcpUserTimeout = 18

// setUserTimeout makes the kernel end a server's TCP connection whose peer acknowledges
// nothing for the keepalive timeout, as grpc-go does (gRFC A18). Without it, a vanished
// client is noticed only after many retransmissions while there is something to send.
func setUserTimeout(nc net.Conn, p *keepalive.ServerParameters) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok || p.Time == forever {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			// Pings find the vanished client too, only later.
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(p.Timeout/time.Millisecond))
		})
	}
}
