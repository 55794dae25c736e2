//go:build unix

package failure_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"wirelab.dev/internal/base/failure"
)

// web is a TLS server, and what its clients may trust. httptest's certificate
// is for 127.0.0.1 and valid for decades.
func web(t *testing.T) (server *httptest.Server, client *tls.Config) {
	t.Helper()
	server = httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = quiet
	server.StartTLS()
	t.Cleanup(server.Close)
	client = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName = "127.0.0.1"
	return server, client
}

// misunderstandings are faults of a client's configuration for web, by class.
var misunderstandings = map[failure.Class]func(*tls.Config){
	"certificate: unknown authority":     func(c *tls.Config) { c.RootCAs = nil },
	"certificate: wrong name":            func(c *tls.Config) { c.ServerName = "elsewhere.invalid" },
	"certificate: expired":               func(c *tls.Config) { c.Time = func() time.Time { return time.Now().AddDate(200, 0, 0) } },
	"tls-alert: no application protocol": func(c *tls.Config) { c.NextProtos = []string{"gopher"} },
}

func TestHandshakesOnTCP(t *testing.T) {
	server, good := web(t)
	for class, spoil := range misunderstandings {
		config := good.Clone()
		spoil(config)
		err := tls.Client(dial(t, server.Listener.Addr().String()), config).HandshakeContext(t.Context())
		expect(t, err, class)
	}
}

func TestHandshakesOnQUIC(t *testing.T) {
	server, good := web(t)
	own := server.TLS.Clone()
	own.NextProtos = []string{"h3"}
	listener, err := quic.ListenAddr("127.0.0.1:0", own, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	good.NextProtos = own.NextProtos
	for class, spoil := range misunderstandings {
		config := good.Clone()
		spoil(config)
		_, err := quic.DialAddr(t.Context(), listener.Addr().String(), config, nil)
		expect(t, err, class)
	}
}

func TestPlaintextPeers(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	err := tls.Client(dial(t, plain.Listener.Addr().String()), &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context())
	expect(t, err, failure.PlaintextPeer)
	_, err = http.Get("https://" + plain.Listener.Addr().String()) //nolint:bodyclose // there is none
	expect(t, err, failure.PlaintextPeer)

	alerting := peer(t, func(conn *net.TCPConn) {
		_, _ = conn.Read(make([]byte, 1000))
		_, _ = conn.Write([]byte{21, 3, 1, 0, 2, 2, 10}) // RFC 8446, section 6
	})
	_, err = http.Get("http://" + alerting) //nolint:bodyclose // there is none
	expect(t, err, failure.PlaintextPeer)
}

func TestHandshakeTimeouts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	mute := peer(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	err := tls.Client(dial(t, mute), &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	expect(t, err, failure.Deadline) // of what, only the caller knows
	expect(t, failure.MarkHandshakeTimeout(err), failure.HandshakeTimeout)

	transport := &http.Transport{TLSHandshakeTimeout: 20 * time.Millisecond}
	_, err = (&http.Client{Transport: transport}).Get("https://" + mute) //nolint:bodyclose // there is none
	expect(t, err, failure.HandshakeTimeout)

	deaf, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	_, err = quic.DialAddr(t.Context(), deaf.LocalAddr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, &quic.Config{HandshakeIdleTimeout: 20 * time.Millisecond})
	expect(t, failure.MarkHandshakeTimeout(err), failure.HandshakeTimeout)
}
