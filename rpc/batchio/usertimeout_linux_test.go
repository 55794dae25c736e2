package batchio

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestUserTimeout(t *testing.T) {
	near, _ := tcpPair(t)
	SetUserTimeout(near, 1500*time.Millisecond)
	raw, err := near.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if failed := raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); failed != nil || err != nil || got != 1500 {
		t.Errorf("the timeout is %d ms, want 1500: %v, %v", got, failed, err)
	}
	pipe, other := net.Pipe()
	defer func() { _, _ = pipe.Close(), other.Close() }()
	SetUserTimeout(pipe, time.Second) // does nothing
}
