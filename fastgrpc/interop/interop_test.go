package interop

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"wirelab.dev/fastgrpc"
)

// TestCases runs every case in one process, which is quick and lets the race detector
// see both ends.
func TestCases(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := fastgrpc.NewServer()
	Register(server)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	cc, err := fastgrpc.NewClient(lis.Addr().String(), fastgrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := Cases[name](ctx, cc); err != nil {
				t.Error(err)
			}
		})
	}
}

var programsDir string // "" until programs has made it

// programs builds the interop programs of both libraries and the other tools, once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fastgrpc-peers")
	if err != nil {
		return "", err
	}
	programsDir = dir
	for _, build := range []*exec.Cmd{
		// Both find grpc-go's certificates beside its source, whose path -trimpath hides.
		exec.Command("go", "build", "-C", "../peers", "-trimpath=false", "-ldflags=-s -w", "-o", dir+"/theirs/", "tool"),
		exec.Command("go", "build", "-trimpath=false", "-ldflags=-s -w", "-o", dir+"/ours/", "./client", "./server"),
	} {
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range []string{programsDir, python.dir} {
		_ = os.RemoveAll(dir) // "" is nothing
	}
	os.Exit(code)
}

var testdataDir = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "google.golang.org/grpc/testdata").Output()
	return strings.TrimSpace(string(out)), err
})

// testdata is the path of a file in grpc-go's test data.
func testdata(t *testing.T, name string) string {
	t.Helper()
	dir, err := testdataDir()
	if err != nil {
		t.Fatalf("find grpc-go's test data: %v", err)
	}
	return filepath.Join(dir, name)
}

func program(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: running the programs of others takes a while")
	}
	dir, err := programs()
	if err != nil {
		t.Skipf("the programs of others cannot be built here: %v", err)
	}
	return filepath.Join(dir, name)
}

// startServer runs a server program and returns its port.
func startServer(t *testing.T, name string, secure bool) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	_ = lis.Close()
	cmd := exec.Command(program(t, name), "-port", port, fmt.Sprintf("-use_tls=%v", secure))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() && log.Len() > 0 {
			t.Logf("%s said:\n%s", name, log.String())
		}
	})
	for range 100 {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
			return port
		}
		time.Sleep(20 * time.Millisecond) // for another program to begin listening
	}
	t.Fatalf("%s does not listen", name)
	return ""
}

func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program(t, name), args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// flagsOf holds the additional flags of some cases.
func flagsOf(name string) []string {
	switch {
	case strings.HasSuffix(name, "_soak"):
		return []string{
			"-soak_iterations", "40", "-soak_num_threads", "4", "-soak_max_failures", "0",
			"-soak_per_iteration_max_acceptable_latency_ms", "5000", "-soak_overall_timeout_seconds", "30",
			"-soak_min_time_ms_between_rpcs", "1", "-soak_request_size", "200000", "-soak_response_size", "300000",
		}
	case strings.HasPrefix(name, "orca_"):
		return []string{"-service_config_json", `{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`}
	case name == "empty_unary":
		return []string{"-additional_metadata", "key-one:value one;key-two:a:b"}
	}
	return nil
}

// TestPrograms runs grpc-go's programs against fastgrpc's, both ways, with and without
// TLS, and against themselves: a case that fails there is not fastgrpc's fault.
func TestPrograms(t *testing.T) {
	t.Parallel()
	cases := append(Names(), "rpc_soak", "channel_soak")
	for _, secure := range []bool{false, true} {
		for _, pair := range [][2]string{{"theirs/client", "theirs/server"}, {"theirs/client", "ours/server"}, {"ours/client", "theirs/server"}} {
			t.Run(fmt.Sprintf("%s to %s tls=%v", pair[0], pair[1], secure), func(t *testing.T) {
				t.Parallel()
				port := startServer(t, pair[1], secure)
				for _, name := range cases {
					if name == "pick_first_unary" && pair[0] == "theirs/client" && pair[1] == "theirs/server" {
						continue // grpc-go's client wants a server's name there that its server does not give
					}
					// Use a numeric host: for a name, grpc-go asks the DNS server for a
					// service config, and a slow answer would count as latency.
					args := append([]string{"-server_host", "127.0.0.1", "-server_port", port, "-test_case", name}, flagsOf(name)...)
					if secure {
						args = append(args, "-use_tls", "-use_test_ca", "-server_host_override", "foo.test.google.fr")
					}
					t.Run(name, func(t *testing.T) { runProgram(t, pair[0], args...) })
				}
			})
		}
	}
}

// TestConformance runs h2spec's generic, http2 and hpack suites; see the package's
// comment for the header length.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			t.Parallel()
			args := []string{"-h", "127.0.0.1", "-p", startServer(t, "ours/server", secure), "--timeout", "2", "--max-header-length", "30000"}
			if secure {
				args = append(args, "-t", "-k")
			}
			out := runProgram(t, "theirs/h2spec", args...)
			if !strings.Contains(out, " 0 skipped, 0 failed") {
				t.Errorf("h2spec:\n%s", out[strings.LastIndex(out, "Failures:")+1:])
			}
		})
	}
}

// TestGrpcurl uses grpcurl as an operator would: it lists services by reflection, asks
// for health, and makes each kind of call, with metadata, a failure and a deadline.
func TestGrpcurl(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + startServer(t, "ours/server", false)
	const service = "grpc.testing.TestService/"
	for _, c := range []struct {
		name string
		args []string
		want string
		exit int // 64 more than the code
	}{
		{"list", []string{address, "list"}, "grpc.testing.TestService", 0},
		{"describe", []string{address, "describe", "grpc.testing.SimpleRequest"}, "response_size", 0},
		{"health", []string{address, "grpc.health.v1.Health/Check"}, "SERVING", 0},
		{"unary", []string{"-d", `{"response_size":3}`, address, service + "UnaryCall"}, `"AAAA"`, 0},
		{"output", []string{"-d", `{"response_parameters":[{"size":1},{"size":2}]}`, address, service + "StreamingOutputCall"}, `"AAA="`, 0},
		{"input", []string{"-d", `{"payload":{"body":"AAAA"}} {"payload":{"body":"AAAA"}}`, address, service + "StreamingInputCall"}, `"aggregatedPayloadSize": 6`, 0},
		{"duplex", []string{"-d", `{"response_parameters":[{"size":1}]} {"response_parameters":[{"size":2}]}`, address, service + "FullDuplexCall"}, `"AAA="`, 0},
		{"header", []string{"-v", "-H", initialKey + ": hello", address, service + "UnaryCall"}, initialKey + ": hello", 0},
		{"trailer", []string{"-v", "-H", trailingKey + ": q83v", address, service + "UnaryCall"}, trailingKey + ": q83v", 0},
		{"failure", []string{"-d", `{"response_status":{"code":9,"message":"not now"}}`, address, service + "UnaryCall"}, "not now", 64 + 9},
		{"deadline", []string{"-max-time", "0.2", "-d", `{"response_parameters":[{"interval_us":9000000}]}`, address, service + "StreamingOutputCall"}, "DeadlineExceeded", 64 + 4},
	} {
		t.Run(c.name, func(t *testing.T) { checkGrpcurl(t, append([]string{"-plaintext"}, c.args...), c.want, c.exit) })
	}
	t.Run("TLS", func(t *testing.T) {
		address := "127.0.0.1:" + startServer(t, "ours/server", true)
		args := []string{"-cacert", testdata(t, "ca.pem"), "-servername", "foo.test.google.fr", "-d", `{"response_size":3}`, address, service + "UnaryCall"}
		checkGrpcurl(t, args, `"AAAA"`, 0)
	})
}

func checkGrpcurl(t *testing.T, args []string, want string, exit int) {
	t.Helper()
	cmd := exec.Command(program(t, "theirs/grpcurl"), args...)
	out, _ := cmd.CombinedOutput() // the exit code says more
	if got := cmd.ProcessState.ExitCode(); got != exit || !strings.Contains(string(out), want) {
		t.Errorf("exit code %d, want %d and %q in:\n%s", got, exit, want, out)
	}
}

// TestTelemetry runs the OpenTelemetry tests, which are a separate module.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: building OpenTelemetry takes a while")
	}
	binary := filepath.Join(t.TempDir(), "telemetry.test")
	if out, err := exec.Command("go", "test", "-C", "../telemetry", "-c", "-ldflags=-s -w", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Skipf("OpenTelemetry cannot be built here: %v\n%s", err, out)
	}
	telemetry := exec.Command(binary)
	telemetry.Dir = "../telemetry"
	if out, err := telemetry.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
