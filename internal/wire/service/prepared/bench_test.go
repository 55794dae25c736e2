package prepared

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/wire/service"
)

// The benchmarks' server is a process of its own, so that the client's CPU time is known.
// It is this test binary. One variable names what it serves, another one its CPU.
const (
	serveVariable = "WIRELAB_PREPARED_SERVE"
	cpuVariable   = "WIRELAB_PREPARED_SERVER_CPU"
)

func TestMain(m *testing.M) {
	if what, set := os.LookupEnv(serveVariable); set {
		if err := serveUntilClosed(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// serveUntilClosed serves, for instance, h1 4096, until its standard input ends.
func serveUntilClosed(what string) error {
	var wire service.Wire
	var size int
	if _, err := fmt.Sscan(what, &wire, &size); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go serveAll(listener, func(conn net.Conn) { // until the process ends
		if wire == service.HTTP1 {
			serveHTTP1(conn, size)
		} else {
			serveHTTP2(conn, wire == service.GRPC, size)
		}
	})
	fmt.Fprintln(os.Stdout, listener.Addr())
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	if err.Error() == "EOF" {
		return nil
	}
	return err
}

// process starts a server and returns its address.
func process(b *testing.B, wire service.Wire, size int) string {
	b.Helper()
	server := exec.CommandContext(b.Context(), os.Args[0])
	if cpu := os.Getenv(cpuVariable); cpu != "" {
		server = exec.CommandContext(b.Context(), "taskset", "-c", cpu, os.Args[0])
	}
	server.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", serveVariable, wire, size))
	server.Stderr = os.Stderr
	input, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = input.Close(); _ = server.Wait() })
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// callUntil calls in a closed loop until the deadline, and returns the number of calls.
func callUntil(ctx context.Context, deadline time.Time, client service.Client, request *service.Request) (calls int, err error) {
	var answer service.Answer
	for time.Now().Before(deadline) {
		if err := client.Call(ctx, request, &answer); err != nil {
			return calls, err
		}
		if answer.Status != 0 && answer.Status != 200 {
			return calls, fmt.Errorf("status %d", answer.Status)
		}
		calls++
	}
	return calls, nil
}

const (
	benchCallers = 50
	benchTime    = time.Second
	shortTime    = 50 * time.Millisecond // which only shows that it works
)

// loadWith lets all callers call, and returns the CPU time per call.
func loadWith(b *testing.B, plan service.Plan) time.Duration {
	b.Helper()
	plan.Callers, plan.Connections = benchCallers, 1
	if plan.Wire == service.HTTP1 {
		plan.Connections = benchCallers
	}
	client, _ := open(b, plan)
	window := benchTime
	if testing.Short() {
		window = shortTime
	}
	before, deadline := cpuTime(b), time.Now().Add(window)
	var calls atomic.Int64
	var callers errgroup.Group
	for range benchCallers {
		callers.Go(func() error {
			made, err := callUntil(b.Context(), deadline, client, &plan.Requests[0])
			calls.Add(int64(made))
			return err
		})
	}
	if err := callers.Wait(); err != nil {
		b.Fatal(err)
	}
	return (cpuTime(b) - before) / time.Duration(calls.Load())
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A yard is a load generator that a case is compared with.
type yard struct {
	find      func() (string, error)
	arguments func(address, folder string) []string
	count     *regexp.Regexp
}

var (
	wrk = yard{
		find: func() (string, error) { return exec.LookPath("wrk") },
		arguments: func(address, _ string) []string {
			return []string{"-t", "1", "-c", strconv.Itoa(benchCallers), "-d", benchTime.String(), "http://" + address + "/"}
		},
		count: regexp.MustCompile(`(\d+) requests in`),
	}
	h2load = yard{
		find: func() (string, error) { return exec.LookPath("h2load") },
		arguments: func(address, _ string) []string {
			return []string{"-D", benchTime.String(), "-c", "1", "-m", strconv.Itoa(benchCallers), "http://" + address + "/"}
		},
		count: regexp.MustCompile(`(\d+) succeeded`),
	}
	h2loadGRPC = yard{
		find: h2load.find,
		arguments: func(address, folder string) []string {
			rest := h2load.arguments(address, folder)
			own := []string{"-H", "content-type: application/grpc", "-H", "te: trailers", "-d", filepath.Join(folder, "framed")}
			return append(append(own, rest[:len(rest)-1]...), "http://"+address+"/test.Test/Echo")
		},
		count: h2load.count,
	}
	ghz = yard{
		find: func() (string, error) {
			client, _ := foreign.Generators.Find("ghz")
			if err := client.Install(context.Background(), os.Stderr); err != nil {
				return "", err
			}
			path, _, err := client.Find()
			return path, err
		},
		arguments: func(address, folder string) []string {
			return []string{
				"-z", benchTime.String(), "-c", strconv.Itoa(benchCallers), "--connections", "1", "--insecure",
				"--proto", filepath.Join(folder, "test.proto"), "-B", filepath.Join(folder, "prefixed"), "--call", "test.Test/Echo", address,
			}
		},
		count: regexp.MustCompile(`Count:\s+(\d+)`),
	}
)

// measure runs the program and returns its CPU time per request.
func (y yard) measure(b *testing.B, address, folder string) time.Duration {
	b.Helper()
	path, err := y.find()
	if err != nil {
		b.Skip(err)
	}
	run := exec.CommandContext(b.Context(), path, y.arguments(address, folder)...)
	output, err := run.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, output)
	}
	found := y.count.FindSubmatch(output)
	if found == nil {
		b.Fatalf("no count in\n%s", output)
	}
	count, err := strconv.Atoi(string(found[1]))
	if err != nil || count == 0 {
		b.Fatalf("%v, %d requests\n%s", err, count, output)
	}
	return (run.ProcessState.UserTime() + run.ProcessState.SystemTime()) / time.Duration(count)
}

// writeRequest writes the files that the programs read their request from.
func writeRequest(b *testing.B, size int) (folder string) {
	b.Helper()
	folder = b.TempDir()
	m := message(size)
	framed := append([]byte{0, byte(len(m) >> 24), byte(len(m) >> 16), byte(len(m) >> 8), byte(len(m))}, m...)
	prefixed := append(appendVarint(nil, len(m)), m...)
	const proto = "syntax = \"proto3\";\npackage test;\nmessage M { bytes content = 1; }\nservice Test { rpc Echo(M) returns (M); }\n"
	for name, content := range map[string][]byte{"framed": framed, "prefixed": prefixed, "test.proto": []byte(proto)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return folder
}

func appendVarint(to []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		to = append(to, byte(n)|0x80)
	}
	return append(to, byte(n))
}

var benches = []struct {
	name string
	wire service.Wire
	size int
	than map[string]yard
}{
	{"h1-64B", service.HTTP1, 64, map[string]yard{"wrk": wrk}},
	{"h1-4KiB", service.HTTP1, 4096, map[string]yard{"wrk": wrk}},
	{"h2-64B", service.HTTP2, 64, map[string]yard{"h2load": h2load}},
	{"grpc-64B", service.GRPC, 64, map[string]yard{"h2load": h2loadGRPC, "ghz": ghz}},
}

// planOf returns the client's plan in a benchmark.
func planOf(wire service.Wire, size int, address string) service.Plan {
	plan := service.Plan{Definition: &service.Definition{Wire: wire, Address: address, Authority: address}}
	plan.Requests = []service.Request{{Method: "GET", Path: "/"}}
	if wire == service.GRPC {
		plan.Requests = []service.Request{{Path: "/test.Test/Echo", Messages: [][]byte{message(size)}}}
	}
	return plan
}

// BenchmarkLoad measures the client's CPU time per call, with the load engine.
func BenchmarkLoad(b *testing.B) {
	for _, c := range benches {
		b.Run(c.name, func(b *testing.B) {
			address := process(b, c.wire, c.size)
			for b.Loop() {
				b.ReportMetric(float64(loadWith(b, planOf(c.wire, c.size, address)).Nanoseconds()), "cpu-ns/call")
			}
		})
	}
}

// BenchmarkYardsticks compares that with other load generators at the same server, in turn,
// and reports medians: of both, and of the ratios of neighbours, which suffer the same
// machine. Pin it for figures that mean something:
//
//	WIRELAB_PREPARED_SERVER_CPU=1 taskset -c 0 go test -bench Yardsticks -benchtime 1x .
func BenchmarkYardsticks(b *testing.B) {
	if testing.Short() {
		b.Skip("it runs other load generators for more than a minute")
	}
	const rounds = 7
	for _, c := range benches {
		for name, other := range c.than {
			b.Run(c.name+"-"+name, func(b *testing.B) {
				address, folder := process(b, c.wire, c.size), writeRequest(b, c.size)
				var own, theirs, ratios []float64
				for b.Loop() {
					for i := range rounds {
						own = append(own, float64(loadWith(b, planOf(c.wire, c.size, address))))
						theirs = append(theirs, float64(other.measure(b, address, folder)))
						ratios = append(ratios, own[i]/theirs[i])
					}
				}
				b.Logf("ratios %.2f", ratios)
				b.ReportMetric(median(own), "cpu-ns/call")
				b.ReportMetric(median(theirs), name+"-cpu-ns/call")
				b.ReportMetric(median(ratios), "ratio")
			})
		}
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
