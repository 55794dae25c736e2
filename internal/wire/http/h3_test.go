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

	"wirelab.dev/internal/wire/conn"
)

// handshakes returns how many handshakes the dialer counted.
func handshakes(d *conn.Dialer) int64 { return d.Counts().Full + d.Counts().Resumed }

// firstBytes returns how many first bytes the dialer timed since it was last asked.
func firstBytes(d *conn.Dialer) int64 {
	times := d.TakeTimes()
	defer times.Close()
	if times.FirstByte == nil {
		return 0
	}
	return times.FirstByte.Count()
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

func newH3EchoClient(t testing.TB, address string, lifecycle conn.Lifecycle, connections int) (*Client, *conn.Dialer) {
	t.Helper()
	counts := &conn.Dialer{}
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
		if open := counts.Counts().Open; open != 0 {
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
	client, counts := newH3EchoClient(t, address, conn.Kept, 3)
	if counts.Counts().Open != 3 {
		t.Errorf("%d connections before the first request, want 3", counts.Counts().Open)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { h3Echo(t, client, address, "hello") })
	}
	all.Wait()
	if counts.Counts().Opened != 3 || handshakes(counts) != 3 || counts.Counts().Resumed != 0 {
		t.Errorf("opened %d, handshakes %d, resumed %d", counts.Counts().Opened, handshakes(counts), counts.Counts().Resumed)
	}
	traffic, known := client.Traffic()
	t.Logf("%+v", traffic)
	if !known || traffic.SentPackets == 0 || traffic.ReceivedPackets < traffic.ReceiveCalls || traffic.MinRTT == 0 {
		t.Errorf("traffic %+v", traffic)
	}
}

func TestH3OnePerRequest(t *testing.T) {
	address, _ := h3EchoServer(t, h3Identity(t), 0)
	for name, lifecycle := range map[string]conn.Lifecycle{"fresh": conn.Fresh, "resumed": conn.Resumed} {
		t.Run(name, func(t *testing.T) {
			client, counts := newH3EchoClient(t, address, lifecycle, 0)
			before := counts.Counts().Opened // one that was tried, or gave the session
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { h3Echo(t, client, address, "hello") })
			}
			all.Wait()
			want := map[conn.Lifecycle]int64{conn.Fresh: 0, conn.Resumed: 50}[lifecycle]
			if opened := counts.Counts().Opened - before; opened != 50 || counts.Counts().Resumed != want || counts.Counts().Open != 0 || firstBytes(counts) != 50 {
				t.Errorf("opened %d, resumed %d, still open %d", opened, counts.Counts().Resumed, counts.Counts().Open)
			}
		})
	}
}

func TestH3ReportsRefusedPortAtOnce(t *testing.T) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := socket.LocalAddr().String()
	_ = socket.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	counts := &conn.Dialer{}
	_, err = NewClient(ctx, ClientPlan{Version: HTTP3, Address: address, Dialer: counts, TLS: &tls.Config{InsecureSkipVerify: true}})
	if !errors.Is(err, syscall.ECONNREFUSED) || counts.Counts().Failed != 1 {
		t.Errorf("a port that nobody listens on: %v, %d failed", err, counts.Counts().Failed)
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
	client, counts := newH3EchoClient(t, address, conn.Early, 0)
	const requests = 50
	before := earlySeen.Load()
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() { h3Echo(t, client, address, strings.Repeat("x", i*1000)) })
	}
	all.Wait()
	if early := counts.Counts().Early; early != requests || counts.Counts().Resumed != requests || counts.Counts().EarlyRefused+counts.Counts().SentAgain != 0 {
		t.Errorf("%d early, %d resumed, %d refused", early, counts.Counts().Resumed, counts.Counts().EarlyRefused)
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
	if got := counts.Counts(); got.EarlyRefused != 1 || got.Early != requests || got.SentAgain != 1 {
		t.Errorf("early data for a stranger: %d refused, %d early, %d sent again", got.EarlyRefused, got.Early, got.SentAgain)
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
			client, counts := newH3EchoClient(t, address, conn.Fresh, 0)
			requests := int64(200)
			if testing.Short() {
				requests = 50
			}
			var all sync.WaitGroup
			for range requests {
				all.Go(func() { h3Echo(t, client, address, "hello") })
			}
			all.Wait()
			if opened := counts.Counts().Opened; opened != requests+1 || counts.Counts().Failed != 0 || counts.Counts().HandshakeFail != 0 {
				t.Errorf("%d connections, %d failed, %d failed to shake hands", opened, counts.Counts().Failed, counts.Counts().HandshakeFail)
			}
		})
	}
}
