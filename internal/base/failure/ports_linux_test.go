package failure_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/failure"
)

// TestPortExhaustion gives sockets a range of one port (ip(7),
// IP_LOCAL_PORT_RANGE), and asks for a second connection.
func TestPortExhaustion(t *testing.T) {
	const port = 50_007 // of the machine's own range, which a socket's must lie in
	var unsupported error
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			unsupported = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, port<<16|port)
		})
	}}
	address := peer(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	for range 2 {
		conn, err := dialer.Dial("tcp", address)
		if errors.Is(unsupported, syscall.ENOPROTOOPT) {
			t.Skip("a socket's own range of ports needs Linux 6.3")
		}
		if unsupported != nil {
			t.Fatal(unsupported)
		}
		if err != nil {
			expect(t, err, failure.PortExhaustion)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Error("one port was given twice")
}
