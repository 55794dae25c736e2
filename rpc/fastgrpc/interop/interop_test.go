package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	orcadata "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/rpc/fastgrpc"
)

// TestCases runs every case in one process, which is quick and lets the race detector
// see both ends.
func TestCases(t *testing.T) {
	runCases(t, channel(t, serve(t), insecure.NewCredentials()))
}

// serve starts the test's server and returns its address.
func serve(t *testing.T, opts ...fastgrpc.ServerOption) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(opts...)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	return lis.Addr().String()
}

func channel(t *testing.T, address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	cc, err := fastgrpc.NewClient(address, fastgrpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	ch, err := NewChannel(cc)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func runCases(t *testing.T, ch *grpc.ClientConn, without ...string) {
	for _, name := range CaseNames() {
		if slices.Contains(without, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			defer func() {
				if failure := recover(); failure != nil {
					t.Error(failure)
				}
			}()
			Cases[name](ctx, ch)
		})
	}
}

// upload sends n messages in one call.
func upload(t *testing.T, cc grpc.ClientConnInterface, messages, sizeBytes int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := testgrpc.NewTestServiceClient(cc).StreamingInputCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	request := &testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, sizeBytes)}}
	for i := range messages {
		if err := stream.Send(request); errors.Is(err, io.EOF) {
			t.Logf("the call ended at message %d", i)
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := stream.CloseAndRecv(); err != nil || int(reply.GetAggregatedPayloadSize()) != messages*sizeBytes {
		t.Errorf("an upload of %d × %d bytes: %d came, error %v", messages, sizeBytes, reply.GetAggregatedPayloadSize(), err)
	}
}

// panicking makes a failing case of grpc-go panic. It would end the process otherwise.
type panicking struct{ grpclog.LoggerV2 }

func (panicking) Fatalln(args ...any) { panic(fmt.Sprint(args...)) }

// TestLoadReport checks the load report in the trailers of a call, with the server here
// and with grpc-go's. grpc-go's own case reads it from a balancer.
func TestLoadReport(t *testing.T) {
	t.Run("ours", func(t *testing.T) { checkLoadReport(t, serve(t)) })
	t.Run("theirs", func(t *testing.T) { checkLoadReport(t, "127.0.0.1:"+startServer(t, "theirs/server", false)) })
}

func checkLoadReport(t *testing.T, address string) {
	var trailer metadata.MD
	_, err := testgrpc.NewTestServiceClient(channel(t, address, insecure.NewCredentials())).UnaryCall(t.Context(), &testgrpc.SimpleRequest{
		OrcaPerQueryReport: &testgrpc.TestOrcaReport{
			CpuUtilization: 0.8210, MemoryUtilization: 0.5847,
			RequestCost: map[string]float64{"cost": 3456.32}, Utilization: map[string]float64{"util": 0.30499},
		},
	}, grpc.Trailer(&trailer))
	reports := trailer["endpoint-load-metrics-bin"]
	if err != nil || len(reports) != 1 {
		t.Fatalf("%d load reports in the trailer, error %v", len(reports), err)
	}
	got, want := &orcadata.OrcaLoadReport{}, &orcadata.OrcaLoadReport{
		CpuUtilization: 0.8210, MemUtilization: 0.5847,
		RequestCost: map[string]float64{"cost": 3456.32}, Utilization: map[string]float64{"util": 0.30499},
	}
	if err := proto.Unmarshal([]byte(reports[0]), got); err != nil || !proto.Equal(got, want) {
		t.Errorf("load report is %v (%v), want %v", got, err, want)
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
		exec.Command("go", "build", "-trimpath=false", "-ldflags=-s -w", "-o", dir+"/theirs/",
			"github.com/fullstorydev/grpcurl/cmd/grpcurl", "github.com/summerwind/h2spec/cmd/h2spec",
			"google.golang.org/grpc/interop/client", "google.golang.org/grpc/interop/server"),
		exec.Command("go", "build", "-trimpath=false", "-ldflags=-s -w", "-o", dir+"/ours/", "./client", "./server"),
	} {
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(panicking{grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr)})
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

// startServer runs a server program on a free port and returns that port, which both
// programs log.
func startServer(t *testing.T, name string, secure bool) string {
	t.Helper()
	cmd := exec.Command(program(t, name), "-port", "0", fmt.Sprintf("-use_tls=%v", secure))
	cmd.Env = append(cmd.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=info")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	port, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(io.TeeReader(log, &said)); lines.Scan(); {
			if _, address, found := strings.Cut(lines.Text(), "interop server listening on "); found {
				_, number, _ := net.SplitHostPort(address)
				port <- number
			}
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", name, said.String())
		}
	})
	var number string
	select {
	case number = <-port:
	case <-ended:
		t.Fatalf("%s ended before it listened", name)
	}
	return number
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
			"-soak_per_iteration_max_acceptable_latency_ms", "60000", "-soak_overall_timeout_seconds", "100",
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
// TLS.
func TestPrograms(t *testing.T) {
	t.Parallel()
	both := append(CaseNames(), "rpc_soak", "channel_soak")
	for _, secure := range []bool{false, true} {
		for _, pair := range [][2]string{{"theirs/client", "ours/server"}, {"ours/client", "theirs/server"}} {
			t.Run(fmt.Sprintf("%s to %s tls=%v", pair[0], pair[1], secure), func(t *testing.T) {
				t.Parallel()
				port := startServer(t, pair[1], secure)
				cases := both
				if pair[0] == "theirs/client" {
					cases = append(slices.Clip(cases), "orca_per_rpc")
				}
				for _, name := range cases {
					switch {
					case name == "pick_first_unary" && pair[1] == "theirs/server":
						continue // the case wants the server's name, which this one does not give
					case name == "cancel_after_begin" && pair[0] == "theirs/client":
						continue // grpc-go's client sometimes half-closes the call after its cancellation, and gets OK
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
		{"header", []string{"-v", "-H", "x-grpc-test-echo-initial: hello", address, service + "UnaryCall"}, "x-grpc-test-echo-initial: hello", 0},
		{"trailer", []string{"-v", "-H", "x-grpc-test-echo-trailing-bin: q83v", address, service + "UnaryCall"}, "x-grpc-test-echo-trailing-bin: q83v", 0},
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
