package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

const (
	reconnectBytes = 256
	reconnectTurn  = 160 // calls
	sources        = 8   // addresses, so that ports suffice
)

// BenchmarkReconnect opens a TLS connection for every call and says how near
// that comes to what the cryptography allows: to a bare loop of crypto/tls that
// dials, shakes hands, echoes and closes, from the same dialer. The bars for
// full handshakes are 0.7 for h1, 0.55 for h2 and 0.5 for h3. Both ends of all
// are in this process, and they take turns, so that what else the machine does
// falls on all; the median turn counts.
func BenchmarkReconnect(b *testing.B) {
	for _, variant := range []string{"h1:tls=on", "h2:tls=on", "h3"} {
		for _, lifecycle := range []conn.Lifecycle{conn.Fresh, conn.Resumed} {
			for _, clients := range []int{1, 50} {
				b.Run(fmt.Sprintf("%s/%s/c=%d", variant, lifecycles[lifecycle], clients), func(b *testing.B) {
					ours, bare := stackCall(b, variant, lifecycle), bareCall(b, lifecycle)
					var ratios, rates []float64
					for b.Loop() {
						t, p := turn(b, clients, ours), turn(b, clients, bare)
						ratios = append(ratios, p.Seconds()/t.Seconds())
						rates = append(rates, reconnectTurn/t.Seconds())
					}
					b.ReportMetric(0, "ns/op") // of both together: nobody's figure
					b.ReportMetric(median(rates), "calls/s")
					b.ReportMetric(median(ratios), "of-bare")
				})
			}
		}
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// turn returns the time that the clients take for their calls.
func turn(b *testing.B, clients int, call func() error) time.Duration {
	b.Helper()
	runtime.GC() // nobody pays for another's garbage
	begin := time.Now()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for range (reconnectTurn + i) / clients { // together as many as there are
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(begin)
}

func stackCall(b *testing.B, variant string, lifecycle conn.Lifecycle) func() error {
	b.Helper()
	address, root := serveOn(b, variant, &scripted{})
	client := dialOn(b, variant, stack.Target{
		Address: address, Lifecycle: lifecycle, Trust: secure.Trust{RootPEM: root}, Dialer: &conn.Dialer{Sources: sources},
	})
	stub, in := testpb.NewTestServiceClient(client), &testpb.TestRequest{Body: bytes.Repeat([]byte{'x'}, reconnectBytes)}
	return func() error {
		_, err := stub.Unary(context.Background(), in)
		return err
	}
}

func bareCall(b *testing.B, lifecycle conn.Lifecycle) func() error {
	b.Helper()
	identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
	if err != nil {
		b.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", identity.ServerConfig())
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { echoAll(listener, &serving) })
	b.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	address := listener.Addr().String()
	config, err := secure.Choice{}.ClientConfig(address, secure.Trust{RootPEM: identity.RootPEM()})
	if err != nil {
		b.Fatal(err)
	}
	opener := conn.Opener{Dialer: &conn.Dialer{Sources: sources}, Address: address, TLS: config}
	if lifecycle == conn.Resumed {
		if err := opener.PrimeSession(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return func() error {
		conn, err := opener.Open(context.Background())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		data := make([]byte, reconnectBytes)
		if _, err := conn.Write(data); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, data)
		return err
	}
}

// echoAll ends with the listener, and its connections with their clients.
func echoAll(listener net.Listener, serving *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		serving.Go(func() {
			defer func() { _ = conn.Close() }()
			data := make([]byte, reconnectBytes)
			for {
				if _, err := io.ReadFull(conn, data); err != nil {
					return
				}
				if _, err := conn.Write(data); err != nil {
					return
				}
			}
		})
	}
}
