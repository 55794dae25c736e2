//go:build unix

package tcp

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

func baselineCallers(b *testing.B, clients int, keep bool) []caller {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go echoPlainly(listener, keep)
	callers := make([]caller, clients)
	for i := range callers {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		callers[i] = newPlainEnd(conn, keep).call
	}
	return callers
}

func stackCallers(b *testing.B, clients int, variant string) []caller {
	b.Helper()
	address := startEcho(b, variant)
	callers := make([]caller, clients)
	for i := range callers {
		client, err := Stack{}.NewClient(b.Context(), parse(b, variant), stack.Target{Address: address, Operations: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { client.Close() })
		callers[i] = callerOf(b, client)
	}
	return callers
}

// BenchmarkBaseline compares the stack's CPU time a call, both ends together, with
// the baseline's. The limit is a ratio of 1.15. The two run in turns, so that other
// load on the machine affects both; the median turn counts.
func BenchmarkBaseline(b *testing.B) {
	for _, sizeBytes := range []int{64, 64 << 10} {
		for _, buffers := range []string{buffersFresh, buffersPooled} {
			for _, clients := range []int{1, 16} {
				name := fmt.Sprintf("%dB/%s/c=%d", sizeBytes, buffers, clients)
				b.Run(name, func(b *testing.B) {
					ours := stackCallers(b, clients, "tcp:buffers="+buffers)
					plain := baselineCallers(b, clients, buffers == buffersPooled)
					compare(b, sizeBytes, ours, plain)
				})
			}
		}
	}
}

func compare(b *testing.B, sizeBytes int, ours, plain []caller) {
	b.Helper()
	calls := 2000 // a turn, all callers together: some ten milliseconds
	if sizeBytes > 1<<10 {
		calls = 400
	}
	payload := &echopb.Payload{Id: 1, Data: make([]byte, sizeBytes), Timestamp: time.Now().UnixNano()}
	turn := func(callers []caller) time.Duration {
		runtime.GC() // nobody pays for the other's garbage
		before := cpuTime(b)
		var all sync.WaitGroup
		for _, call := range callers {
			all.Go(func() {
				for range calls / len(callers) {
					if out, err := call(payload); err != nil || len(out.Data) != sizeBytes {
						b.Errorf("an echo of %d bytes: %v", sizeBytes, err)
						return
					}
				}
			})
		}
		all.Wait()
		return cpuTime(b) - before
	}
	turn(ours)
	turn(plain)
	var ratios, oursCPU, plainCPU []float64
	for i := 0; b.Loop(); i++ {
		var t, p time.Duration
		if i%2 == 0 {
			t, p = turn(ours), turn(plain)
		} else {
			p, t = turn(plain), turn(ours)
		}
		ratios = append(ratios, float64(t)/float64(p))
		oursCPU = append(oursCPU, perCall(t, calls))
		plainCPU = append(plainCPU, perCall(p, calls))
	}
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(oursCPU), "cpu-µs/call")
	b.ReportMetric(median(plainCPU), "baseline-cpu-µs/call")
}

func perCall(cpu time.Duration, calls int) (microseconds float64) {
	return float64(cpu.Microseconds()) / float64(calls)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
