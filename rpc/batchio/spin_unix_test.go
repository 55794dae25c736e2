//go:build unix

package batchio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
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

// TestRareReadsDoNotPoll checks that a read polls only if the read before it took little time.
func TestRareReadsDoNotPoll(t *testing.T) {
	c := new(Conn)
	s := &spinner{to: c, skip: 1}
	for i, step := range []struct {
		took  time.Duration
		polls bool
	}{{0, false}, {maxGap, true}, {maxGap + 1, false}, {time.Hour, false}, {0, true}} {
		c.LastRead.Add(int64(step.took))
		if got := s.mayPoll(); got != step.polls {
			t.Errorf("read %d, after one of %v, polls: %v, want %v", i, step.took, got, step.polls)
		}
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

// TestDirect sends more than a socket holds through a direct connection, and ends with a deadline.
func TestDirect(t *testing.T) {
	near, far := tcpPair(t)
	d := Direct(near)
	if d == near {
		t.Fatal("a socket was not wrapped")
	}
	if wrapper := net.Conn(struct{ net.Conn }{near}); Direct(wrapper) != wrapper {
		t.Error("a wrapper was passed over, which must see every byte")
	}
	if Direct(d) != d {
		t.Error("a direct connection was wrapped again")
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	written := make(chan error, 1)
	go func() {
		n, err := d.Write(data)
		if err == nil && n != len(data) {
			err = io.ErrShortWrite
		}
		written <- err
	}()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("other bytes have arrived: %v", err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	_ = d.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := d.Write(data); !errors.Is(err, os.ErrDeadlineExceeded) || n == len(data) {
		t.Errorf("nobody reads, and %d bytes were written with the result %v", n, err)
	}
	if _, err := d.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody writes, and the read returned %v", err)
	}
	_ = d.Close()
	if _, err := d.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after Close returned %v", err)
	}
}

// TestManySegments writes more segments, and longer ones, than a system call takes.
func TestManySegments(t *testing.T) {
	near, far := tcpPair(t)
	out := NewOutput()
	var want []byte
	for i := range 300 {
		short, long := bytes.Repeat([]byte{byte(i)}, i), bytes.Repeat([]byte{byte(^i)}, i*i*10)
		out.SetTail(append(out.Tail(), short...))
		out.Reference(long)
		want = append(append(want, short...), long...)
	}
	written := make(chan error, 1)
	go func() { written <- newSocketWriter(near).write(out, true) }()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes have arrived: %v", err)
	}
	if err := <-written; err != nil || out.Len() != 0 {
		t.Errorf("%v, and %d bytes are left", err, out.Len())
	}
	out.Recycle()
}
