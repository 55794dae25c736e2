package stacktest

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// expectRead reads from the connection until want comes.
func expectRead(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	buffer := make([]byte, largestDatagram)
	_ = conn.SetReadDeadline(time.Now().Add(maxWait))
	for {
		n, err := conn.Read(buffer)
		if string(buffer[:n]) == want {
			return
		}
		if err != nil {
			t.Fatalf("the connection ended with %v, want %q", err, want)
		}
	}
}

func expectNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came, and %v", n, err)
	}
}

func TestProxyMisbehavesOnCommand(t *testing.T) {
	for _, s := range []Subject{{}, {Datagrams: true}} {
		t.Run(s.network(), func(t *testing.T) {
			echo := listen(t, s)
			acceptAll(t, echo, func(conn net.Conn) { _, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) })
			p := newProxy(t, s, echo.Addr().String())
			dial := func() net.Conn {
				conn, err := net.Dial(s.network(), p.address)
				requireNoError(t, "dial", err)
				t.Cleanup(func() { _ = conn.Close() })
				return conn
			}
			send := func(conn net.Conn, text string) {
				_, err := conn.Write([]byte(text))
				requireNoError(t, "write", err)
			}
			conn := dial()
			send(conn, "one")
			expectRead(t, conn, "one")
			if p.requests.Load() == 0 {
				t.Error("the proxy counts no request")
			}
			p.setSilent(true)
			send(conn, "two")
			expectNothing(t, conn)
			p.setSilent(false)
			if s.Datagrams {
				send(conn, "three") // two may be lost
				expectRead(t, conn, "three")
			} else {
				expectRead(t, conn, "two")
			}
			other := dial()
			send(other, "three")
			expectRead(t, other, "three")
			p.cutAfter(2)
			send(conn, "four")
			if s.Datagrams {
				send(other, "four")
				expectNothing(t, conn)
				expectNothing(t, other)
			} else if _, err := other.Read(make([]byte, 100)); err == nil {
				t.Error("the cut leaves the other connection open")
			} else if rest, err := io.ReadAll(conn); err != nil || string(rest) != "fo" {
				t.Errorf("%q came before the cut, and %v", rest, err)
			}
			p.heal()
			conn = dial()
			send(conn, "five")
			expectRead(t, conn, "five")
		})
	}
}

func TestRawPeerAnswers(t *testing.T) {
	for _, s := range []Subject{{}, {Datagrams: true}} {
		t.Run(s.network(), func(t *testing.T) {
			p := rawPeer(t, s, []byte("garbage"))
			conn, err := net.Dial(s.network(), p.address)
			requireNoError(t, "dial", err)
			defer func() { _ = conn.Close() }()
			_, err = conn.Write([]byte("anyone?"))
			requireNoError(t, "write", err)
			expectRead(t, conn, "garbage")
			if !becomesTrue(t, func() bool { return p.asked.Load() == 1 }) {
				t.Errorf("the peer counts %d questions", p.asked.Load())
			}
		})
	}
}
