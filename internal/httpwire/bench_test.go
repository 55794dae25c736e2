//go:build unix

package httpwire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/httpwire"
	"wirelab.dev/internal/secure"
)

// BenchmarkNewConnections opens a TLS connection for every request, with a full
// handshake, and says how near HTTP comes to what the cryptography allows: to a
// bare loop of crypto/tls that dials, shakes hands, echoes and closes. Both ends
// of all are in this process, as many requests are in flight, and they take
// turns, so that a noisy machine is noisy for all of them.
func BenchmarkNewConnections(b *testing.B) {
	const (
		sizeBytes = 256
		inFlight  = 50
		turn      = 200 // exchanges
	)
	body := bytes.Repeat([]byte{'x'}, sizeBytes)
	for _, lifecycle := range []httpwire.Lifecycle{httpwire.Fresh, httpwire.Resumed} {
		b.Run(map[httpwire.Lifecycle]string{httpwire.Fresh: "new", httpwire.Resumed: "resumed"}[lifecycle], func(b *testing.B) {
			identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
			if err != nil {
				b.Fatal(err)
			}
			exchanges := []func() error{
				bareExchange(b, identity, lifecycle, body),
				httpExchange(b, identity, httpwire.HTTP1, lifecycle, body),
				httpExchange(b, identity, httpwire.HTTP2, lifecycle, body),
				httpExchange(b, identity, httpwire.HTTP3, lifecycle, body),
			}
			took := make([]time.Duration, len(exchanges))
			for b.Loop() {
				for i, exchange := range exchanges {
					begin := time.Now()
					together(b, inFlight, turn, exchange)
					took[i] += time.Since(begin)
				}
			}
			b.ReportMetric(0, "ns/op") // of all together: nobody's figure
			rate := func(i int) float64 { return float64(b.N*turn) / took[i].Seconds() }
			b.ReportMetric(rate(0), "bare/s")
			b.ReportMetric(rate(1)/rate(0), "h1-of-bare")
			b.ReportMetric(rate(2)/rate(0), "h2-of-bare")
			b.ReportMetric(rate(3)/rate(0), "h3-of-bare")
		})
	}
}

// together makes so many exchanges with so many in flight.
func together(b *testing.B, inFlight, exchanges int, exchange func() error) {
	b.Helper()
	var (
		workers sync.WaitGroup
		begun   atomic.Int64
	)
	for range inFlight {
		workers.Go(func() {
			for begun.Add(1) <= int64(exchanges) {
				if err := exchange(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// bareExchange is the loop without HTTP.
func bareExchange(b *testing.B, identity *secure.Identity, lifecycle httpwire.Lifecycle, body []byte) func() error {
	b.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", identity.ServerConfig())
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				echo := make([]byte, len(body))
				for {
					if _, err := io.ReadFull(conn, echo); err != nil {
						return
					}
					if _, err := conn.Write(echo); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	address := listener.Addr().String()
	config := clientConfig(b, identity, address)
	if lifecycle == httpwire.Resumed {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	return func() error {
		raw, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		conn := tls.Client(raw, config)
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(body); err != nil {
			return err
		}
		answer := make([]byte, len(body))
		_, err = io.ReadFull(conn, answer)
		return err
	}
}

func clientConfig(tb testing.TB, identity *secure.Identity, address string, protocols ...string) *tls.Config {
	tb.Helper()
	config, err := secure.Choice{}.ClientConfig(address, secure.Trust{RootPEM: identity.RootPEM()}, protocols...)
	if err != nil {
		tb.Fatal(err)
	}
	return config
}

// httpExchange posts the body to a server that sends it back.
func httpExchange(b *testing.B, identity *secure.Identity, version httpwire.Version, lifecycle httpwire.Lifecycle, body []byte) func() error {
	b.Helper()
	server, err := httpwire.NewServer(httpwire.ServerPlan{Version: version, TLS: identity.ServerConfig(version.Protocols()...), Handler: http.HandlerFunc(sendBack)})
	if err != nil {
		b.Fatal(err)
	}
	bound, err := server.Listen(b.Context(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve() })
	b.Cleanup(func() { _ = server.Close(); serving.Wait() })
	address := bound.String()
	client, err := httpwire.NewClient(b.Context(), httpwire.ClientPlan{
		Version: version, Address: address, Lifecycle: lifecycle, Dialer: &plainDialer{},
		TLS: clientConfig(b, identity, address, version.Protocols()...),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return func() error {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://"+address+"/", bytes.NewReader(body))
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if n, err := io.Copy(io.Discard, response.Body); err != nil || n != int64(len(body)) {
			return fmt.Errorf("%d bytes came back, %w", n, err)
		}
		return nil
	}
}

func sendBack(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// plainDialer counts nothing.
type plainDialer struct{ net.Dialer }

func (d *plainDialer) DialTLS(ctx context.Context, address string, config *tls.Config) (*tls.Conn, error) {
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return d.ShakeHands(ctx, raw, config)
}

func (*plainDialer) ShakeHands(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

func (*plainDialer) Opened() func()                         { return func() {} }
func (*plainDialer) Failed()                                {}
func (*plainDialer) HandshakeFailed()                       {}
func (*plainDialer) Shaken(time.Duration, bool, bool, bool) {}
func (*plainDialer) FirstByte(time.Duration)                {}
