package link

import (
	"io"
	"math"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

// BenchmarkFlood sends datagrams as fast as the sender can, and reports how many the
// emulator had no room for, and the CPU time of this process for each.
func BenchmarkFlood(b *testing.B) {
	n := newNetwork(b, Settings{Emulated: true, Up: record.Way{DelayNS: int64(time.Microsecond)}})
	d := openDatagrams(b, n)
	message := make([]byte, 1400)
	before := ownCPU()
	for b.Loop() {
		if _, err := d.sender.Write(message); err != nil {
			b.Fatal(err)
		}
	}
	used := ownCPU() - before
	counts := n.Stop()
	up := counts.Up
	b.ReportMetric(100*float64(up.Overrun)/float64(up.Frames), "%overrun")
	b.ReportMetric(float64(used)/float64(up.Frames), "cpu-ns/frame")
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkBulk transfers by TCP without a limit.
func BenchmarkBulk(b *testing.B) {
	for _, s := range []struct {
		name     string
		settings Settings
	}{{"direct", Settings{MTU: 1500}}, {"frames", Settings{Emulated: true}}, {"5ms", bothWays(record.Way{DelayNS: int64(5 * time.Millisecond)})}} {
		b.Run(s.name, func(b *testing.B) {
			const bytes = 32 << 20
			n := newNetwork(b, s.settings)
			took := time.Duration(0)
			for b.Loop() {
				took += transfer(b, n, bytes)
			}
			b.ReportMetric(float64(b.N)*bytes*8/1e6/took.Seconds(), "Mbit/s")
			if counts := n.Stop(); counts != nil {
				b.ReportMetric(float64(counts.Dropped)/float64(b.N), "overruns/op")
				b.ReportMetric(float64(counts.LateP99NS)/1e3, "late-p99-us")
			}
		})
	}
}

// BenchmarkRoundTrip reports what a link adds to an echo, and how late it is.
func BenchmarkRoundTrip(b *testing.B) {
	for _, s := range []struct {
		name     string
		settings Settings
	}{
		{"loopback", Settings{}},
		{"direct", Settings{MTU: 1500}},
		{"frames", Settings{Emulated: true}},
		{"200us", bothWays(record.Way{DelayNS: int64(200 * time.Microsecond)})},
		{"1ms", bothWays(record.Way{DelayNS: int64(time.Millisecond)})},
		{"5ms", bothWays(record.Way{DelayNS: int64(5 * time.Millisecond)})},
	} {
		b.Run(s.name, func(b *testing.B) {
			n := newNetwork(b, s.settings)
			listener := listenAt(b, n)
			go serveEcho(listener) // ends with the connection or the listener
			conn := dialFrom(b, n, listener.Addr().String())
			message := make([]byte, 100)
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				if _, err := conn.Write(message); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, message); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
			if counts := n.Stop(); counts != nil {
				b.ReportMetric(float64(counts.LateP99NS)/1e3, "late-p99-us")
			}
		})
	}
}

// BenchmarkRate reports what TCP gets of 50 Mbit/s, headers included.
func BenchmarkRate(b *testing.B) {
	for _, s := range []struct {
		name     string
		settings Settings
	}{
		{"tbf", Settings{Up: record.Way{Rate: 50_000_000}}},
		{"frames", Settings{Up: record.Way{Rate: 50_000_000, DelayNS: int64(time.Microsecond)}}},
	} {
		b.Run(s.name, func(b *testing.B) {
			n := newNetwork(b, s.settings)
			took := time.Duration(0)
			const segments = 2000
			for b.Loop() {
				took += transfer(b, n, segments*segmentBytes)
			}
			b.ReportMetric(float64(b.N)*segments*frameBytes*8/1e6/took.Seconds(), "Mbit/s")
		})
	}
}

// BenchmarkLoss reports what TCP gets over 5 ms each way where packets are lost, beside
// what M. Mathis and others ("The Macroscopic Behavior of the TCP Congestion Avoidance
// Algorithm", 1997) expect: a segment's size over the round trip, times the square root
// of 3/2 over the loss (without delayed acknowledgements).
func BenchmarkLoss(b *testing.B) {
	for _, algorithm := range []string{"reno", "cubic", "bbr"} {
		for _, loss := range []struct {
			name  string
			share float64
			bytes int // enough to lose some dozens of packets
		}{{"1%", 0.01, 4 << 20}, {"0.1%", 0.001, 32 << 20}} {
			b.Run(algorithm+"/"+loss.name, func(b *testing.B) {
				s := bothWays(record.Way{DelayNS: int64(5 * time.Millisecond)})
				s.Up.Loss = loss.share
				n := newNetwork(b, s)
				took := time.Duration(0)
				for b.Loop() {
					took += transferBy(b, n, loss.bytes, algorithm)
				}
				const roundTripSeconds = 0.01
				b.ReportMetric(float64(b.N)*float64(loss.bytes)*8/1e6/took.Seconds(), "Mbit/s")
				b.ReportMetric(segmentBytes*8/1e6/roundTripSeconds*math.Sqrt(1.5/loss.share), "mathis-Mbit/s")
			})
		}
	}
}

// transferBy is transfer with a congestion control of its own.
func transferBy(b *testing.B, n *Network, bytes int, algorithm string) (took time.Duration) {
	b.Helper()
	listener := listenAt(b, n)
	begin := time.Now()
	err := host.OnDisposableThread(func() error {
		if err := n.EnterClient(); err != nil {
			return err
		}
		d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			if refused := raw.Control(func(fd uintptr) {
				err = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CONGESTION, algorithm)
			}); refused != nil {
				return refused
			}
			return err
		}}
		conn, err := d.DialContext(b.Context(), "tcp4", listener.Addr().String())
		if err != nil {
			return err
		}
		go func() { // ends with the transfer
			_, _ = conn.Write(make([]byte, bytes))
			conn.Close()
		}()
		return nil
	})
	if err != nil {
		b.Skipf("the kernel has no %s here: %v", algorithm, err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer accepted.Close()
	if got, err := io.Copy(io.Discard, accepted); err != nil || got != int64(bytes) {
		b.Fatalf("%d bytes came, %v", got, err)
	}
	return time.Since(begin)
}
