package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/secure"
)

// ends are the two configurations of a TLS connection.
func ends(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
	if err != nil {
		t.Fatal(err)
	}
	client, err = secure.Choice{}.ClientConfig("127.0.0.1:1", secure.Trust{RootPEM: identity.RootPEM()})
	if err != nil {
		t.Fatal(err)
	}
	return identity.ServerConfig(), client
}

// admit has a server greet every connection that is admitted, until the test
// ends.
func admit(t *testing.T, bound int) (address string, client *tls.Config) {
	t.Helper()
	server, client := ends(t)
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := LimitHandshakes(raw, server, bound)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("Accept: %v", err)
				return
			}
			_, _ = conn.Write([]byte("hello"))
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		serving.Wait()
	})
	return raw.Addr().String(), client
}

func dialRaw(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestAdmissionIsBounded fills the bound with peers that say nothing. The
// clean-up sees that they do not hold up Close.
func TestAdmissionIsBounded(t *testing.T) {
	const bound = 2
	address, config := admit(t, bound)
	var mute []net.Conn
	for range bound {
		mute = append(mute, dialRaw(t, address))
	}
	greeted := make(chan error, 1)
	good := tls.Client(dialRaw(t, address), config)
	go func() {
		text, err := io.ReadAll(good)
		if string(text) != "hello" && err == nil {
			err = io.ErrUnexpectedEOF
		}
		greeted <- err
	}()
	select {
	case err := <-greeted:
		t.Fatalf("a third handshake was not held back: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_ = mute[0].Close()
	select {
	case err := <-greeted:
		if err != nil {
			t.Errorf("admitted at last, and then %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the one that waited was not admitted")
	}
}

func TestPlaintextClientsGetAnAlert(t *testing.T) {
	address, _ := admit(t, 1)
	conn := Cleartext(dialRaw(t, address))
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadAll(conn)
	if class := failure.Of(err); class != failure.PlaintextPeer {
		t.Errorf("a client without TLS met %v, of class %q", err, class)
	}
}

func TestCleartextPassesEverythingElse(t *testing.T) {
	for _, said := range []string{"", "\x15", "\x15\x02\x01", "hello \x15\x03", "\x00\x15\x03\x01"} {
		here, there := net.Pipe()
		go func() {
			_, _ = there.Write([]byte(said))
			_, _ = there.Write([]byte("\x15\x03 later"))
			_ = there.Close()
		}()
		heard, err := io.ReadAll(Cleartext(here))
		if said == "" { // then what comes later comes first
			if failure.Of(err) != failure.PlaintextPeer {
				t.Errorf("an alert alone: %q, %v", heard, err)
			}
			continue
		}
		if err != nil || string(heard) != said+"\x15\x03 later" {
			t.Errorf("%q arrived as %q, %v", said, heard, err)
		}
	}
}

func TestServerHandshakeTimesOut(t *testing.T) {
	server, _ := ends(t)
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer func() { _ = here.Close() }()
		begin := time.Now()
		err := ServerHandshake(context.Background(), tls.Server(there, server))
		if took := time.Since(begin); failure.Of(err) != failure.HandshakeTimeout || took != 10*time.Second {
			t.Errorf("a peer that says nothing: %v (%s) after %v", err, failure.Of(err), took)
		}
		if _, err := here.Write([]byte("x")); err == nil {
			t.Error("the connection was left open")
		}
	})
}
