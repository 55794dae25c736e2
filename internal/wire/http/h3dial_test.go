package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
)

// patience limits the time for which a test waits for an event. Only a failing test waits
// so long.
const patience = 2 * time.Minute

// TestMain sets times that no test lives to see: what ends, ends because one side
// told the other.
func TestMain(m *testing.M) {
	closeGrace, maxHandshakeTime, serverHandshakeTimeout = time.Hour, time.Hour, time.Hour
	m.Run()
}

// cancelAfter makes a call with so little patience that it may end anywhere in the
// handshake.
func cancelAfter(t testing.TB, client *Client, address string, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/echo", strings.NewReader("anyone?"))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close()
	}
}

// TestH3ServerLearnsOfCancelledHandshakes has many calls given up in the middle of their
// handshakes, beside good ones, which would wait for ever for a place that nobody uses.
func TestH3ServerLearnsOfCancelledHandshakes(t *testing.T) {
	for name, lifecycle := range map[string]conn.Lifecycle{"fresh": conn.Fresh, "resumed": conn.Resumed, "early": conn.Early} {
		for _, handshakes := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s/%d", name, handshakes), func(t *testing.T) {
				if lifecycle == conn.Early && raceDetector {
					t.Skip("quic-go has a race of its own when a stream is opened in early data (quic-go issue 4303)")
				}
				address, server := h3EchoServer(t, h3Identity(t), handshakes)
				client, _ := newH3EchoClient(t, address, lifecycle, 0)
				const clients, calls = 4, 10
				var all sync.WaitGroup
				for i := range clients {
					all.Go(func() {
						for j := range calls {
							cancelAfter(t, client, address, time.Duration(300*(1+i+j))*time.Microsecond)
							h3Echo(t, client, address, "hello")
						}
					})
				}
				all.Wait()
				if err := client.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				expectNoConnections(t, server)
			})
		}
	}
}

// expectNoConnections waits until the server has no connections. A connection that the client
// does not close on the wire would stay for ever.
func expectNoConnections(t testing.TB, server Server) {
	t.Helper()
	count := server.(*h3Server).listener.Connections
	for begin := time.Now(); count() > 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Errorf("after its client was closed, the server has %d connections", count())
			return
		}
	}
}

// muteSocket takes datagrams and says nothing.
func muteSocket(t testing.TB) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String()
}

// expectHandshakeTimeout expects the class, and the error of the context.
func expectHandshakeTimeout(t testing.TB, err error) {
	t.Helper()
	if failure.Of(err) != failure.HandshakeTimeout {
		t.Errorf("a handshake that nobody answers ended with %v", err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not say whose patience ended", err)
	}
}

// TestH3HandshakeTimesOutWithoutAnswer has a peer that never answers. NewClient must not
// wait to close connections properly that nobody knows of.
func TestH3HandshakeTimesOutWithoutAnswer(t *testing.T) {
	for name, lifecycle := range map[string]conn.Lifecycle{"kept": conn.Kept, "fresh": conn.Fresh, "resumed": conn.Resumed, "early": conn.Early} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			counts, address, failed := &conn.Dialer{}, muteSocket(t), make(chan error, 1)
			go func() {
				_, err := NewClient(ctx, ClientPlan{
					Version: HTTP3, Address: address, Lifecycle: lifecycle, Dialer: counts, TLS: &tls.Config{InsecureSkipVerify: true},
				})
				failed <- err
			}()
			select {
			case err := <-failed:
				expectHandshakeTimeout(t, err)
			case <-time.After(patience):
				t.Fatal("NewClient does not return after the end of its context")
			}
			if counts.Counts().Failed != 1 || counts.Counts().Opened != 0 {
				t.Errorf("%d failed, %d opened", counts.Counts().Failed, counts.Counts().Opened)
			}
		})
	}
}
