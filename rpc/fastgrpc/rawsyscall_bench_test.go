//go:build linux && !386 && !race

package fastgrpc

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// endVariable makes the test process an end of BenchmarkRawSystemCalls.
const endVariable = "FASTGRPC_BENCH_END"

// BenchmarkRawSystemCalls compares raw system calls with announced ones: the CPU time of
// the end that makes them, and the time that garbage collections wait for the program to
// stop. Each end is a process of its own. The settings take turns, so that other
// programs disturb all of them alike. The benchmark compares medians.
func BenchmarkRawSystemCalls(b *testing.B) {
	for _, p := range []struct{ name, server, client string }{
		{"fast client, grpc-go server", "grpc-go", "fastgrpc"},
		{"grpc-go client, fast server", "fastgrpc", "grpc-go"},
		{"both fast", "fastgrpc", "fastgrpc"},
		{"both grpc-go", "grpc-go", "grpc-go"},
	} {
		for _, load := range []benchLoad{{1, 64}, {50, 64}, {1, 64 << 10}} {
			b.Run(fmt.Sprintf("%s/callers=%d/bytes=%d", p.name, load.callers, load.bytes), func(b *testing.B) {
				var on, off benchEnds
				on.start(b, p.server, p.client, "on", load)
				off.start(b, p.server, p.client, "off", load)
				for b.Loop() {
					on.round(b, load)
					off.round(b, load)
				}
				for _, end := range []struct {
					name    string
					on, off *benchEnd
				}{{"client", &on.client, &off.client}, {"server", &on.server, &off.server}} {
					b.ReportMetric(median(end.on.cpu), end.name+"-us/call")
					b.ReportMetric(ratio(end.on.cpu, end.off.cpu), end.name+"-on/off")
					b.ReportMetric(end.on.p99, end.name+"-on-stop-p99-us")
					b.ReportMetric(end.off.p99, end.name+"-off-stop-p99-us")
					b.ReportMetric(end.on.most, end.name+"-on-stop-max-us")
					b.ReportMetric(end.off.most, end.name+"-off-stop-max-us")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// ratio returns the median of the ratios of rounds that followed each other.
func ratio(a, b []float64) float64 {
	var all []float64
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return median(all)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// benchEnd is a process that makes or answers calls.
type benchEnd struct {
	in        io.WriteCloser
	out       *bufio.Reader
	last      float64   // CPU time in us
	cpu       []float64 // us a call, of each round
	p99, most float64   // us
}

type benchEnds struct{ server, client benchEnd }

type benchLoad struct{ callers, bytes int }

func (e *benchEnds) start(b *testing.B, server, client, raw string, load benchLoad) {
	e.server.start(b, raw, "server "+server)
	address := strings.TrimSpace(e.server.line(b))
	e.client.start(b, raw, fmt.Sprintf("client %s %s %d %d", client, address, load.callers, load.bytes))
	e.round(b, load) // to warm up
	e.client.cpu, e.server.cpu = nil, nil
}

func (e *benchEnd) start(b *testing.B, raw, role string) {
	process := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestBenchEnd$", "-test.timeout=1h")
	process.Env = append(os.Environ(), endVariable+"="+role, "FASTGRPC_RAW="+raw, "GOGC=20")
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := process.Start(); err != nil {
		b.Fatal(err)
	}
	e.in, e.out = in, bufio.NewReader(out)
	b.Cleanup(func() {
		_ = in.Close()
		_ = process.Wait()
	})
}

func (e *benchEnd) line(b *testing.B) string {
	line, err := e.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return line
}

// callsARound is for 50 callers; one caller makes a tenth.
const callsARound = 20_000

func (e *benchEnds) round(b *testing.B, load benchLoad) {
	calls := callsARound
	if load.callers == 1 {
		calls /= 10
	}
	if testing.Short() {
		calls /= 20
	}
	e.client.ask(b, calls)
	e.server.ask(b, calls)
}

func (e *benchEnd) ask(b *testing.B, calls int) {
	if _, err := fmt.Fprintln(e.in, calls); err != nil {
		b.Fatal(err)
	}
	var cpu float64
	if _, err := fmt.Sscan(e.line(b), &cpu, &e.p99, &e.most); err != nil {
		b.Fatal(err)
	}
	e.cpu = append(e.cpu, (cpu-e.last)/float64(calls))
	e.last = cpu
}

// TestBenchEnd runs one end of BenchmarkRawSystemCalls. It passes if endVariable is not set.
func TestBenchEnd(t *testing.T) {
	var role, kind, address string
	var load benchLoad
	if n, _ := fmt.Sscan(os.Getenv(endVariable), &role, &kind, &address, &load.callers, &load.bytes); n == 0 {
		return
	}
	makeCalls := func(int) {}
	if role == "server" {
		s := fastServer()
		if kind == "grpc-go" {
			s = theirServer()
		}
		fmt.Println(serve(t, s))
	} else {
		connect := fastClient
		if kind == "grpc-go" {
			connect = theirClient
		}
		c, err := connect(address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		makeCalls = func(n int) { callFrom(t, testgrpc.NewTestServiceClient(c), load, n) }
	}
	for {
		var calls int
		if _, err := fmt.Scanln(&calls); err != nil {
			return
		}
		makeCalls(calls)
		p99, most := stopWaits()
		fmt.Println(cpuTime().Seconds()*1e6, p99, most)
	}
}

func callFrom(t *testing.T, c testgrpc.TestServiceClient, load benchLoad, calls int) {
	in := request(make([]byte, load.bytes))
	var calling sync.WaitGroup
	for range load.callers {
		calling.Go(func() {
			for range calls / load.callers {
				if _, err := c.UnaryCall(t.Context(), in); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	calling.Wait()
}

// stopWaits returns the 99th percentile and the most of the time, in microseconds, that
// garbage collections waited for all goroutines to stop.
func stopWaits() (p99, most float64) {
	sample := []metrics.Sample{{Name: "/sched/pauses/stopping/gc:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	var all, sum uint64
	for _, n := range h.Counts {
		all += n
	}
	for i, n := range h.Counts {
		if n == 0 {
			continue
		}
		upper := h.Buckets[i+1] * 1e6
		if math.IsInf(upper, 1) {
			upper = h.Buckets[i] * 1e6
		}
		if sum += n; p99 == 0 && float64(sum) >= 0.99*float64(all) {
			p99 = upper
		}
		most = upper
	}
	return p99, most
}
