package httpwire

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
)

// TestHeadersOverUDP has QUIC over either version of IP.
func TestHeadersOverUDP(t *testing.T) {
	for _, c := range []struct {
		server, client string // hosts
		want           int64
	}{
		{"127.0.0.1", "127.0.0.1", 28},
		{"127.0.0.1", "::ffff:127.0.0.1", 28}, // IPv4 in the spelling of IPv6
		{"::1", "::1", 48},
	} {
		t.Run(c.client, func(t *testing.T) {
			if got := trafficOfQUIC(t, c.server, c.client); got.HeaderBytes != c.want {
				t.Errorf("a datagram's headers are %d bytes, want %d", got.HeaderBytes, c.want)
			}
		})
	}
}

// trafficOfQUIC returns the traffic of an HTTP/3 client that has opened its connection.
func trafficOfQUIC(t *testing.T, serverHost, clientHost string) conn.Traffic {
	t.Helper()
	serverTLS, clientTLS := identity(t)
	server, err := NewServer(ServerPlan{Version: HTTP3, TLS: serverTLS, Handler: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	address, err := server.Listen(t.Context(), net.JoinHostPort(serverHost, "0"))
	if err != nil {
		t.Skipf("this machine has no %s: %v", serverHost, err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(t.Context(), ClientPlan{
		Version: HTTP3, Address: net.JoinHostPort(clientHost, port), TLS: clientTLS, Dialer: &conn.Dialer{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	traffic, known := client.Traffic()
	if !known || traffic.SentPackets == 0 {
		t.Errorf("%+v, known: %v", traffic, known)
	}
	return traffic
}

// identity makes both ends' configurations.
func identity(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	made, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
	if err != nil {
		t.Fatal(err)
	}
	client, err = secure.Choice{}.ClientConfig("127.0.0.1:1", secure.Trust{RootPEM: made.RootPEM()})
	if err != nil {
		t.Fatal(err)
	}
	return made.ServerConfig(), client
}
