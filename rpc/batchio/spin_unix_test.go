//go:build unix

package batchio

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// TestReadersThatSpinOrSleep exchanges frames with each way of waiting for data.
func TestReadersThatSpinOrSleep(t *testing.T) {
	for name, prepare := range map[string]func(net.Conn) (net.Conn, func(*Conn)){
		"spin":  func(nc net.Conn) (net.Conn, func(*Conn)) { return Spin(nc, time.Millisecond), func(*Conn) {} },
		"sleep": func(nc net.Conn) (net.Conn, func(*Conn)) { return nc, (*Conn).DisablePolling },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := tcpPair(t)
			nc, choose := prepare(far)
			var running sync.WaitGroup
			c := new(Conn)
			m := &echoMachine{conn: c, gone: make(chan struct{})}
			c.Init(nc)
			choose(c)
			c.Attach(m, m)
			c.Start(&running)
			for range 10 {
				echoed(t, near, 1, 100, 2*firstChunk)
			}
			if name == "spin" && c.minCallerBatch() != 1 {
				t.Error("callers wait for the writer")
			}
			_ = near.Close()
			running.Wait()
		})
	}
}

// TestSpinWithoutASocket checks that only sockets spin.
func TestSpinWithoutASocket(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	if Spin(near, time.Second) != near {
		t.Error("a pipe was wrapped")
	}
	socket, _ := tcpPair(t)
	if Spin(socket, 0) != socket {
		t.Error("a socket was wrapped, which is not to spin")
	}
}

// TestSpinReads reads from a socket that spins as a TLS connection does: before, during
// and after the spinning, and at the end.
func TestSpinReads(t *testing.T) {
	near, far := tcpPair(t)
	spins := Spin(near, 10*time.Millisecond)
	buf := make([]byte, 10)
	for _, wait := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
		go func() { // ends when it has written
			time.Sleep(wait)
			_, _ = far.Write([]byte("hello"))
		}()
		if n, err := io.ReadFull(spins, buf[:5]); err != nil || string(buf[:n]) != "hello" {
			t.Errorf("after %v: %q, %v", wait, buf[:n], err)
		}
	}
	if n, err := spins.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing: %d, %v", n, err)
	}
	_ = far.Close()
	if n, err := spins.Read(buf); n != 0 || err != io.EOF { //nolint:errorlint // itself
		t.Errorf("at the end: %d, %v", n, err)
	}
}
