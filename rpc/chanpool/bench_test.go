package chanpool

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// BenchmarkPool holds a pool that sizes itself against fixed sizes, on loopback and behind a
// delay of 5 ms. Each has two seconds to settle, and is then measured; study
// cures does it with both ends apart.
func BenchmarkPool(b *testing.B) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond} {
		for _, callers := range []int{1, 4, 16, 48, 200} {
			for _, size := range []int{1, 2, 4, 8, 0} {
				name := fmt.Sprintf("delay=%v/callers=%d/size=%d", delay, callers, size)
				if size == 0 {
					name = fmt.Sprintf("delay=%v/callers=%d/size=auto", delay, callers)
				}
				b.Run(name, func(b *testing.B) { benchmarkPool(b, delay, callers, size) })
			}
		}
	}
}

func benchmarkPool(b *testing.B, delay time.Duration, callers, size int) {
	address := listen(b, new(service))
	opts := []Option{Fixed(size)}
	if size == 0 {
		opts = nil
	}
	pool := open(b, func(context.Context) (Channel, error) {
		return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil || delay == 0 {
				return nc, err
			}
			return newDelayed(nc, delay), nil
		}))
	}, opts...)
	client := testgrpc.NewTestServiceClient(pool)
	in := &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, 64)}}
	var made atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := client.UnaryCall(b.Context(), in); err != nil {
					b.Error(err)
					return
				}
				made.Add(1)
			}
		})
	}
	time.Sleep(2 * time.Second)
	before := made.Load()
	b.ResetTimer()
	for b.Loop() {
		time.Sleep(10 * time.Millisecond)
	}
	b.ReportMetric(float64(made.Load()-before)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(pool.State().Size), "channels")
	close(stop)
	all.Wait()
}

// delayed is a connection whose bytes arrive later, each way half of the time.
type delayed struct {
	net.Conn
	delay time.Duration
	out   chan late
	in    chan late
	rest  []byte
	ended chan struct{}
	once  sync.Once
}

type late struct {
	data []byte
	at   time.Time
}

func newDelayed(nc net.Conn, roundTrip time.Duration) *delayed {
	const queued = 4096
	d := &delayed{Conn: nc, delay: roundTrip / 2, out: make(chan late, queued), in: make(chan late, queued), ended: make(chan struct{})}
	go func() { // ends with Close
		for {
			select {
			case l := <-d.out:
				time.Sleep(time.Until(l.at))
				if _, err := nc.Write(l.data); err != nil {
					return
				}
			case <-d.ended:
				return
			}
		}
	}()
	go func() { // ends with Close
		defer close(d.in)
		for {
			b := make([]byte, 32<<10)
			n, err := nc.Read(b)
			if err != nil {
				return
			}
			select {
			case d.in <- late{b[:n], time.Now().Add(d.delay)}:
			case <-d.ended:
				return
			}
		}
	}()
	return d
}

func (d *delayed) Write(p []byte) (int, error) {
	select {
	case d.out <- late{append([]byte(nil), p...), time.Now().Add(d.delay)}:
		return len(p), nil
	case <-d.ended:
		return 0, net.ErrClosed
	}
}

func (d *delayed) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		l, ok := <-d.in
		if !ok {
			return 0, net.ErrClosed
		}
		time.Sleep(time.Until(l.at))
		d.rest = l.data
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *delayed) Close() error {
	d.once.Do(func() { close(d.ended) })
	return d.Conn.Close()
}
