package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/failure"
)

func TestOpenerAsksForTheProtocol(t *testing.T) {
	for _, offered := range []string{"", "h2"} {
		address, config := admit(t, 1)
		opener := Opener{Dialer: &Dialer{}, Address: address, TLS: config, Protocol: offered}
		conn, err := opener.Open(t.Context())
		if offered == "" {
			if err != nil {
				t.Fatal(err)
			}
			if _, is := conn.(*tls.Conn); !is {
				t.Errorf("opened a %T", conn)
			}
			_ = conn.Close()
			continue
		}
		if failure.Of(err) != failure.WrongProtocol || !strings.Contains(err.Error(), "does not speak HTTP/2") {
			t.Errorf("a server without ALPN: %v, of class %q", err, failure.Of(err))
		}
		if open := opener.Dialer.Counts().Open; open != 0 {
			t.Errorf("%d connections are open", open)
		}
	}
}

func TestOpenerWrapsBelowTLS(t *testing.T) {
	address, config := admit(t, 1)
	var wrapped net.Conn
	opener := Opener{Dialer: &Dialer{}, Address: address, TLS: config, Wrap: func(raw net.Conn) net.Conn {
		wrapped = &CleartextConn{Conn: raw}
		return wrapped
	}}
	conn, err := opener.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if conn.(*tls.Conn).NetConn() != wrapped {
		t.Error("the wrapper is not below TLS")
	}
}

func TestCleartextOpenerFindsTLS(t *testing.T) {
	address, _ := admit(t, 1)
	conn, err := (&Opener{Dialer: &Dialer{}, Address: address}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("hello, server"))
	if _, err := conn.Read(make([]byte, 100)); failure.Of(err) != failure.PlaintextPeer {
		t.Errorf("%v, of class %q", err, failure.Of(err))
	}
}

func TestAheadGivesWhatIsOpenFirst(t *testing.T) {
	address := listenOnly(t)
	opener := Opener{Dialer: &Dialer{}, Address: address}
	ahead, err := PreopenConns(t.Context(), 3, opener.Open)
	if err != nil {
		t.Fatal(err)
	}
	for i, opened := range []int64{3, 3, 3, 4} {
		conn, err := ahead.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if got := opener.Dialer.Counts().Opened; got != opened {
			t.Errorf("call %d: %d connections were opened, want %d", i, got, opened)
		}
	}
	left, err := PreopenConns(t.Context(), 2, opener.Open)
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	if open := opener.Dialer.Counts().Open; open != 4 {
		t.Errorf("%d connections are open, want the 4 that were taken", open)
	}
}

// listenOnly listens and accepts nothing: the kernel completes connections by itself.
func listenOnly(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestOpenEachIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most, all int
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			all += max(0, n)
			most = max(most, now)
		}
		err := OpenEach(t.Context(), 200, func(context.Context, int) error {
			count(1)
			time.Sleep(time.Second)
			count(-1)
			return nil
		})
		if err != nil || all != 200 || most != 64 {
			t.Errorf("%v, %d opened, %d at once", err, all, most)
		}
		failed := errors.New("no more")
		err = OpenEach(t.Context(), 10, func(ctx context.Context, i int) error {
			if i == 3 {
				return failed
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, failed) {
			t.Errorf("the first error is lost: %v", err)
		}
	})
}
