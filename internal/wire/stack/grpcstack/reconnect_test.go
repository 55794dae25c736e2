package grpcstack

import (
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
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// BenchmarkReconnect holds a call on a connection of its own against what the
// cryptography allows: a bare loop of dial, handshake, echo and close. The bar
// for a full handshake is a ratio of 0.55. The two take turns, so that what else
// the machine does falls on both; the median turn counts.
func BenchmarkReconnect(b *testing.B) {
	for _, lifecycle := range []conn.Lifecycle{conn.Fresh, conn.Resumed} {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/c=%d", map[conn.Lifecycle]string{conn.Fresh: "new", conn.Resumed: "resumed"}[lifecycle], clients), func(b *testing.B) {
				compare(b, clients, stackCall(b, lifecycle), bareCall(b, lifecycle))
			})
		}
	}
}

const (
	reconnectBytes = 256
	sources        = 8 // addresses, so that ports suffice
)

func stackCall(b *testing.B, lifecycle conn.Lifecycle) func() error {
	b.Helper()
	target := serve(b, "grpc:tls=on", &whoAsks{calls: map[string]int{}})
	target.Lifecycle, target.Dialer = lifecycle, &conn.Dialer{Sources: sources}
	client := dialTest(b, "grpc:tls=on", target)
	stub, in := echopb.NewEchoServiceClient(client), &echopb.Payload{Data: make([]byte, reconnectBytes)}
	return func() error {
		_, err := stub.Echo(b.Context(), in)
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
	b.Cleanup(func() { _ = listener.Close() })
	go echoOnce(listener)
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
		conn, err := opener.Open(b.Context())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(make([]byte, reconnectBytes)); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, make([]byte, reconnectBytes))
		return err
	}
}

func echoOnce(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			data := make([]byte, reconnectBytes)
			if _, err := io.ReadFull(conn, data); err == nil {
				_, _ = conn.Write(data)
			}
		}()
	}
}

func compare(b *testing.B, clients int, ours, bare func() error) {
	b.Helper()
	const calls = 160 // a turn, all clients together
	turn := func(call func() error) time.Duration {
		runtime.GC() // nobody pays for the other's garbage
		begin := time.Now()
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range calls / clients {
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
	turn(ours)
	turn(bare)
	var ratios, rates []float64
	for i := 0; b.Loop(); i++ {
		var t, p time.Duration
		if i%2 == 0 {
			t, p = turn(ours), turn(bare)
		} else {
			p, t = turn(bare), turn(ours)
		}
		ratios = append(ratios, p.Seconds()/t.Seconds())
		rates = append(rates, calls/t.Seconds())
	}
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(rates), "calls/s")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
