package clock

import (
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}

// BenchmarkUntil reports how late Until returns: after a pure spin, and after a
// sleep with a spin behind it.
func BenchmarkUntil(b *testing.B) {
	for _, interval := range []time.Duration{10 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		b.Run(interval.String(), func(b *testing.B) {
			var late []int64
			instant := Now()
			for b.Loop() {
				instant += int64(interval)
				Until(instant)
				late = append(late, Now()-instant)
			}
			reportLateness(b, late)
		})
	}
}

// BenchmarkLoopbackBesideSpinner is the reason for sched_yield: the round trip
// of a TCP echo inside this process while a goroutine spins all the time. Run
// it as `taskset -c 0 go test -bench Loopback -cpu 2` to see the single CPU.
func BenchmarkLoopbackBesideSpinner(b *testing.B) {
	client := dialEcho(b)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			spin(Now() + int64(100*time.Microsecond))
		}
	}()
	defer func() { stop.Store(true); <-done }()

	var roundTrips []int64
	message := make([]byte, 64)
	for b.Loop() {
		start := Now()
		if _, err := client.Write(message); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(client, message); err != nil {
			b.Fatal(err)
		}
		roundTrips = append(roundTrips, Now()-start)
	}
	reportLateness(b, roundTrips)
}

func dialEcho(b *testing.B) net.Conn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { // ends when the client's end is closed
		server, err := listener.Accept()
		if err != nil {
			return
		}
		defer server.Close()
		_, _ = io.Copy(struct{ io.Writer }{server}, server)
	}()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close(); listener.Close() })
	return client
}

func reportLateness(b *testing.B, nanoseconds []int64) {
	slices.Sort(nanoseconds)
	n := len(nanoseconds)
	b.ReportMetric(float64(nanoseconds[n/2]), "p50-ns")
	b.ReportMetric(float64(nanoseconds[n*99/100]), "p99-ns")
	b.ReportMetric(float64(nanoseconds[n-1]), "max-ns")
}
