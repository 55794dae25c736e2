package interop

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"wirelab.dev/rpc/fastgrpc"
)

// coreVersion is the package of gRPC's C core.
const coreVersion = "grpcio==1.85.1"

// python is a Python with gRPC's C core: the machine's if it has grpcio, else one installed
// once, in dir.
var python struct {
	sync.Once
	dir, path, missing string
}

func pythonWithCore(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: running Python takes a while")
	}
	python.Do(func() {
		if exec.Command("python3", "-c", "import grpc").Run() == nil {
			python.path = "python3"
			return
		}
		python.dir = filepath.Join(os.TempDir(), fmt.Sprintf("fastgrpc-core-%d", os.Getpid())) // outlives the test
		python.path, python.missing = pythonWith(python.dir, coreVersion)
	})
	if python.missing != "" {
		t.Skipf("Python's grpcio cannot be had here: %s", python.missing)
	}
	return python.path
}

// pythonWith installs a Python package in a folder of its own and returns the path of the
// Python that has it, or the reason why there is none.
func pythonWith(dir, pkg string) (path, missing string) {
	path = filepath.Join(dir, "bin", "python")
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{path, "-m", "pip", "install", "-q", "--retries", "1", "--timeout", "10", pkg},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Sprintf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return path, ""
}

// TestCoreClient runs a Python client with gRPC's C core against fastgrpc's server.
func TestCoreClient(t *testing.T) {
	t.Parallel()
	path := pythonWithCore(t)
	secure, err := credentials.NewServerTLSFromFile(testdata(t, "server1.pem"), testdata(t, "server1.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		opts []fastgrpc.ServerOption
		args []string
	}{
		{"cleartext", nil, nil},
		{"TLS", []fastgrpc.ServerOption{fastgrpc.Creds(secure)}, []string{testdata(t, "ca.pem"), "foo.test.google.fr"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := serve(t, append(c.opts, fastgrpc.UnknownServiceHandler(detailed))...)
			args := append([]string{"testdata/core_client.py", address}, c.args...)
			if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// wantedStatus is the error with details that both servers send.
func wantedStatus() *status.Status {
	st, err := status.New(codes.FailedPrecondition, "not now").WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)},
		&errdetails.ErrorInfo{Reason: "TEST", Domain: "example.com"})
	if err != nil {
		panic(err) // both messages are well-formed
	}
	return st
}

// detailed is a service whose calls fail with details, or wait until they are cancelled.
func detailed(_ any, s grpc.ServerStream) error {
	switch name, _ := grpc.MethodFromServerStream(s); name {
	case "/test.Details/Fail":
		return wantedStatus().Err()
	case "/test.Details/Wait":
		<-s.Context().Done()
		return s.Context().Err()
	}
	return status.Error(codes.Unimplemented, "neither Fail nor Wait")
}

// TestCoreServer runs every case, and calls with compression and with error details,
// against a Python server with gRPC's C core.
func TestCoreServer(t *testing.T) {
	t.Parallel()
	path := pythonWithCore(t)
	secure, err := credentials.NewClientTLSFromFile(testdata(t, "ca.pem"), "foo.test.google.fr")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		creds credentials.TransportCredentials
		args  []string
	}{
		{"cleartext", insecure.NewCredentials(), nil},
		{"TLS", secure, []string{testdata(t, "server1.pem"), testdata(t, "server1.key")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := startCore(t, path, c.args)
			checkCore(t, channel(t, "127.0.0.1:"+port, c.creds))
		})
	}
}

func startCore(t *testing.T, path string, args []string) (port string) {
	cmd := exec.Command(path, append([]string{"testdata/core_server.py"}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends the server
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not say its port: %v", err)
	}
	return strings.TrimSpace(line)
}

func checkCore(t *testing.T, cc *grpc.ClientConn) {
	runCases(t, cc)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	service := testgrpc.NewTestServiceClient(cc)
	t.Run("gzip", func(t *testing.T) {
		const size = 314159
		out, err := service.UnaryCall(ctx, &testgrpc.SimpleRequest{
			ResponseSize: size, Payload: &testgrpc.Payload{Body: make([]byte, 271828)},
		}, grpc.UseCompressor(gzip.Name))
		if got := len(out.GetPayload().GetBody()); err != nil || got != size {
			t.Errorf("got %d bytes, want %d, error %v", got, size, err)
		}
	})
	t.Run("details", func(t *testing.T) {
		packed, err := proto.Marshal(wantedStatus().Proto())
		if err != nil {
			t.Fatal(err)
		}
		asking := metadata.AppendToOutgoingContext(ctx, "want-details-bin", string(packed))
		in := &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: int32(codes.FailedPrecondition), Message: "not now"}}
		_, err = service.UnaryCall(asking, in)
		if got := status.Convert(err); !proto.Equal(got.Proto(), wantedStatus().Proto()) {
			t.Errorf("got %v with details %v", got, got.Details())
		}
	})
	t.Run("deadline", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		s, err := service.FullDuplexCall(short)
		if err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	})
}
