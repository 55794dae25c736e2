//go:build unix

package failure_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/base/failure"
)

func expect(t *testing.T, err error, want failure.Class) {
	t.Helper()
	if got := failure.Of(err); err == nil || got != want {
		t.Errorf("%v (%T) is of class %q, want %q", err, err, got, want)
	}
}

// peer serves each connection until the test ends.
func peer(t *testing.T, serve func(*net.TCPConn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection, which the client closes
				defer func() { _ = conn.Close() }()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestRefused(t *testing.T) {
	taken := dial(t, peer(t, func(*net.TCPConn) {})) // no one else is given its own address
	_, err := net.Dial("tcp", taken.LocalAddr().String())
	expect(t, err, failure.Refused)
}

func TestBrokenOff(t *testing.T) {
	reset := dial(t, peer(t, func(conn *net.TCPConn) {
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.SetLinger(0)
	}))
	_, _ = reset.Write([]byte("x"))
	_, err := reset.Read(make([]byte, 1))
	expect(t, err, failure.Reset)

	closed := dial(t, peer(t, func(*net.TCPConn) {}))
	_, err = io.ReadFull(closed, make([]byte, 1))
	expect(t, err, failure.Closed)
}

// TestBacklog connects to a socket that listens for next to nobody and never
// accepts.
func TestBacklog(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*syscall.SockaddrInet4).Port}
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address.String())
		cancel()
		if err != nil {
			expect(t, err, failure.Backlog)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Error("ten connections found room in a backlog of none")
}

// TestSilenceElsewhere has a link that may lose a SYN, unlike loopback.
func TestSilenceElsewhere(t *testing.T) {
	elsewhere := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	expect(t, &net.OpError{Op: "dial", Net: "tcp", Addr: elsewhere, Err: os.ErrDeadlineExceeded}, failure.ConnectTimeout)
}

// TestDescriptorLimit is not parallel: the limit is the whole process's.
func TestDescriptorLimit(t *testing.T) {
	address := peer(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	dial(t, address) // the poller's own descriptors are there now
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 3 // standard input, output and error, and no more
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	_, err := net.Dial("tcp", address)
	if restored := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); restored != nil {
		t.Fatal(restored)
	}
	expect(t, err, failure.DescriptorLimit)
}
