package conn

import (
	"cmp"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bindWithoutPort makes bind(2) bind only the address (ip(7), IP_BIND_ADDRESS_NO_PORT). connect(2)
// later chooses a port, which need be unique only for its destination.
func bindWithoutPort(_, _ string, conn syscall.RawConn) error {
	var refused error
	err := conn.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	return cmp.Or(err, refused)
}

// manyLoopbackAddresses reports whether all of 127.0.0.0/8 can be used here.
const manyLoopbackAddresses = true

// HasPeerClosed reports whether the peer has closed the connection, or its half of it.
func HasPeerClosed(conn net.Conn) (closed bool) {
	control(conn, func(fd int) {
		state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor is small
		n, err := unix.Poll(state, 0)
		closed = err == nil && n > 0
	})
	return closed
}

// HasUnacknowledged reports whether the peer's kernel has not acknowledged all sent bytes. A FIN
// acknowledges all bytes that came before it, so after the peer's FIN these bytes came too late.
func HasUnacknowledged(conn net.Conn) (has bool) {
	control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		has = err == nil && info.Bytes_acked < info.Bytes_sent-info.Bytes_retrans
	})
	return has
}

// control calls look with the descriptor of the connection's socket, if the socket is open.
func control(conn net.Conn, look func(fd int)) {
	socket, ok := findConn[syscall.Conn](conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { look(int(fd)) }) //nolint:gosec // a descriptor is small
	}
}

// SocketTraffic reads a socket's traffic from TCP_INFO (include/uapi/linux/tcp.h).
func SocketTraffic(descriptor int) (Traffic, bool) {
	info, err := unix.GetsockoptTCPInfo(descriptor, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return Traffic{}, false
	}
	t := Traffic{
		Transport: "tcp",
		SentBytes: int64(info.Bytes_sent - info.Bytes_retrans), ReceivedBytes: int64(info.Bytes_received),
		SentPackets: int64(info.Segs_out), ReceivedPackets: int64(info.Segs_in),
		SentPureAcks:     int64(info.Segs_out - info.Data_segs_out),
		ReceivedPureAcks: int64(info.Segs_in - info.Data_segs_in),
		Retransmits:      int64(info.Total_retrans),
		HeaderBytes:      ipv4HeaderBytes + tcpHeaderBytes,
		Busy:             time.Duration(info.Busy_time) * time.Microsecond,
		Blocked:          time.Duration(info.Rwnd_limited+info.Sndbuf_limited) * time.Microsecond,
		MinRTT:           time.Duration(info.Min_rtt) * time.Microsecond,
		OpenRTT:          MeanRTT{Sum: time.Duration(info.Rtt) * time.Microsecond, Count: 1},
	}
	const (
		timestamps     = 1  // TCPI_OPT_TIMESTAMPS
		timestampBytes = 12 // the option's length with padding (RFC 7323, section 3.2)
		noSample       = ^uint32(0)
	)
	if info.Options&timestamps != 0 {
		t.HeaderBytes += timestampBytes
	}
	if info.Min_rtt == noSample || info.Rtt == 0 {
		t.MinRTT, t.OpenRTT = 0, MeanRTT{}
	}
	return t, true
}
