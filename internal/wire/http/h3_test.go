package httpwire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// h3Tally is a Dialer that counts what HTTP/3 reports.
type h3Tally struct {
	Dialer // nil: HTTP/3 opens no TCP connection

	answered func() // if set, called with every answer's protocol

	opened, open, failed, handshakeFailed, handshakes, resumed, early, refused, firstByte atomic.Int64
}

func (t *h3Tally) Opened() func() {
	t.opened.Add(1)
	t.open.Add(1)
	return sync.OnceFunc(func() { t.open.Add(-1) })
}
func (t *h3Tally) Failed()                      { t.failed.Add(1) }
func (t *h3Tally) HandshakeFailed()             { t.handshakeFailed.Add(1) }
func (t *h3Tally) FirstByte(took time.Duration) { t.firstByte.Add(1) }
func (t *h3Tally) UsedProtocol(string) {
	if t.answered != nil {
		t.answered()
	}
}

func (t *h3Tally) Handshake(h Handshake) {
	t.handshakes.Add(1)
	for counter, happened := range map[*atomic.Int64]bool{&t.resumed: h.State.DidResume, &t.early: h.Early, &t.refused: h.EarlyRefused} {
		if happened {
			counter.Add(1)
		}
	}
}

// earlySeen counts requests that were there before their handshake was done. The
// tests that look at it do not run in parallel.
var earlySeen atomic.Int64

// h3EchoServer answers with the request's body.
func h3EchoServer(t testing.TB, identity *tls.Config, handshakes int) (address string, server Server) {
	t.Helper()
	return h3EchoServerAt(t, identity, handshakes, "127.0.0.1:0")
}

func h3EchoServerAt(t testing.TB, identity *tls.Config, handshakes int, at string) (address string, server Server) {
	t.Helper()
	server, err := NewServer(ServerPlan{
		Version: HTTP3, TLS: identity, Handshakes: handshakes,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !r.TLS.HandshakeComplete {
				earlySeen.Add(1)
			}
			_, _ = io.Copy(w, r.Body)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := server.Listen(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("Close of the server: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return bound.String(), server
}

func newH3EchoClient(t testing.TB, address string, lifecycle Lifecycle, connections int) (*Client, *h3Tally) {
	t.Helper()
	counts := &h3Tally{}
	client, err := NewClient(t.Context(), ClientPlan{
		Version: HTTP3, Address: address, Lifecycle: lifecycle, Connections: connections, Dialer: counts,
		TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, ServerName: "localhost"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close of the client: %v", err)
		}
		if open := counts.open.Load(); open != 0 {
			t.Errorf("a closed client has %d connections open", open)
		}
	})
	return client, counts
}

// h3Echo makes a request and looks at the answer.
func h3Echo(t testing.TB, client *Client, address, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/echo", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Errorf("Do: %v", err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != body {
		t.Errorf("answered with %.40q, %v; want %.40q", got, err, body)
	}
}

// h3Identity is a server's end with a certificate of its own signing.
func h3Identity(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
}

func TestH3Kept(t *testing.T) {
	address, _ := h3EchoServer(t, h3Identity(t), 0)
	client, counts := newH3EchoClient(t, address, Kept, 3)
	if counts.open.Load() != 3 {
		t.Errorf("%d connections before the first request, want 3", counts.open.Load())
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { h3Echo(t, client, address, "hello") })
	}
	all.Wait()
	if counts.opened.Load() != 3 || counts.handshakes.Load() != 3 || counts.resumed.Load() != 0 {
		t.Errorf("opened %d, handshakes %d, resumed %d", counts.opened.Load(), counts.handshakes.Load(), counts.resumed.Load())
	}
	traffic, known := client.Traffic()
	t.Logf("%+v", traffic)
	if !known || traffic.PacketsSent == 0 || traffic.DatagramsSent == 0 || traffic.DatagramsReceived < traffic.ReceiveCalls || traffic.MinRTT == 0 {
		t.Errorf("traffic %+v", traffic)
	}
}

func TestH3OnePerRequest(t *testing.T) {
	address, _ := h3EchoServer(t, h3Identity(t), 0)
	for name, lifecycle := range map[string]Lifecycle{"fresh": Fresh, "resumed": Resumed} {
		t.Run(name, func(t *testing.T) {
			client, counts := newH3EchoClient(t, address, lifecycle, 0)
			before := counts.opened.Load() // one that was tried, or gave the session
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { h3Echo(t, client, address, "hello") })
			}
			all.Wait()
			want := map[Lifecycle]int64{Fresh: 0, Resumed: 50}[lifecycle]
			if opened := counts.opened.Load() - before; opened != 50 || counts.resumed.Load() != want || counts.open.Load() != 0 || counts.firstByte.Load() != 50 {
				t.Errorf("opened %d, resumed %d, still open %d", opened, counts.resumed.Load(), counts.open.Load())
			}
		})
	}
}

func TestH3ReportsRefusedPortAtOnce(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := conn.LocalAddr().String()
	_ = conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	counts := &h3Tally{}
	_, err = NewClient(ctx, ClientPlan{Version: HTTP3, Address: address, Dialer: counts, TLS: &tls.Config{InsecureSkipVerify: true}})
	if !errors.Is(err, syscall.ECONNREFUSED) || counts.failed.Load() != 1 {
		t.Errorf("a port that nobody listens on: %v, %d failed", err, counts.failed.Load())
	}
}

// TestH3Early looks at both ends: the client says that early data was taken, the
// server that the request was there before the handshake's end.
func TestH3Early(t *testing.T) {
	if raceDetector {
		t.Skip("quic-go has a race of its own when a stream is opened in early data (quic-go issue 4303)")
	}
	identity := h3Identity(t)
	address, server := h3EchoServer(t, identity, 0)
	client, counts := newH3EchoClient(t, address, Early, 0)
	const requests = 50
	before := earlySeen.Load()
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() { h3Echo(t, client, address, strings.Repeat("x", i*1000)) })
	}
	all.Wait()
	if early := counts.early.Load(); early != requests || counts.resumed.Load() != requests || counts.refused.Load() != 0 {
		t.Errorf("%d early, %d resumed, %d refused", early, counts.resumed.Load(), counts.refused.Load())
	}
	if seen := earlySeen.Load() - before; seen == 0 {
		t.Error("no request reached the handler before its handshake was done")
	} else {
		t.Logf("%d of %d requests reached the handler before their handshake was done", seen, requests)
	}
	// Another server at the address cannot read the session ticket.
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	identity = h3Identity(t)
	h3EchoServerAt(t, identity, 0, address)
	h3Echo(t, client, address, "again")
	if counts.refused.Load() != 1 || counts.early.Load() != requests {
		t.Errorf("early data for a stranger: %d refused, %d early", counts.refused.Load(), counts.early.Load())
	}
}

func FuzzH3Response(f *testing.F) {
	valid := bytes.NewBuffer(nil)
	for _, frame := range [][]byte{{0x1, 0x3, 0, 0, 0xd9}, {0x0, 0x2, 'h', 'i'}, {0x21, 1, 7}, {0x1, 0x2, 0, 0}} {
		valid.Write(frame)
		f.Add(bytes.Clone(valid.Bytes()))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		response, err := readResponse(bytes.NewReader(stream)) //nolint:bodyclose // it holds nothing
		if err != nil {
			return
		}
		if response.StatusCode < http.StatusOK {
			t.Errorf("status %d", response.StatusCode)
		}
		body, _ := io.ReadAll(response.Body)
		if len(body) > len(stream) {
			t.Errorf("a body of %d bytes in a stream of %d", len(body), len(stream))
		}
	})
}

// TestH3AdmitsAllClientsInTheEnd has many clients begin at once where few may shake hands: all
// get in, in the end. 32 is where quic-go refuses them without admission.
func TestH3AdmitsAllClientsInTheEnd(t *testing.T) {
	for _, handshakes := range []int{0, 1, 4} {
		t.Run(strconv.Itoa(handshakes), func(t *testing.T) {
			address, _ := h3EchoServer(t, h3Identity(t), handshakes)
			client, counts := newH3EchoClient(t, address, Fresh, 0)
			requests := int64(200)
			if testing.Short() {
				requests = 50
			}
			var all sync.WaitGroup
			for range requests {
				all.Go(func() { h3Echo(t, client, address, "hello") })
			}
			all.Wait()
			if opened := counts.opened.Load(); opened != requests+1 || counts.failed.Load() != 0 || counts.handshakeFailed.Load() != 0 {
				t.Errorf("%d connections, %d failed, %d failed to shake hands", opened, counts.failed.Load(), counts.handshakeFailed.Load())
			}
		})
	}
}
