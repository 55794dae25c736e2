//go:build unix

package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// BenchmarkAgainstBare makes unary calls, and exchanges the same bytes between a
// handler and a client written by hand on net/http; both ends are in this
// process. The two take turns, so that a noisy machine is noisy for both. The
// figures are CPU time a call, over all cores and with the kernel's, and the
// ratio of the two: what the stack adds to net/http.
func BenchmarkAgainstBare(b *testing.B) {
	const turn = 100
	for _, sizeBytes := range []int{64, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("size=%d", sizeBytes), func(b *testing.B) {
			ctx := context.Background()
			in := &testpb.TestRequest{Body: bytes.Repeat([]byte{'x'}, sizeBytes)}
			stub := testpb.NewTestServiceClient(dial(b, serve(b, &scripted{}), 1))
			bare := bareClient(serveBare(b))
			var restTime, bareTime int64
			for b.Loop() {
				restTime += cpuTimeOf(b, turn, func() error { _, err := stub.Unary(ctx, in); return err })
				bareTime += cpuTimeOf(b, turn, func() error { _, err := bare(ctx, in); return err })
			}
			calls := float64(b.N * turn)
			b.ReportMetric(0, "ns/op") // of both together: nobody's figure
			b.ReportMetric(float64(restTime)/calls, "rest-cpu-ns/call")
			b.ReportMetric(float64(bareTime)/calls, "bare-cpu-ns/call")
			b.ReportMetric(float64(restTime)/float64(bareTime), "ratio")
		})
	}
}

// BenchmarkCall is one unary call after another.
func BenchmarkCall(b *testing.B) {
	for _, sizeBytes := range []int{64, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("size=%d", sizeBytes), func(b *testing.B) {
			b.ReportAllocs()
			in := &testpb.TestRequest{Body: bytes.Repeat([]byte{'x'}, sizeBytes)}
			stub := testpb.NewTestServiceClient(dial(b, serve(b, &scripted{}), 1))
			for b.Loop() {
				if _, err := stub.Unary(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func cpuTimeOf(b *testing.B, calls int, call func() error) int64 {
	b.Helper()
	before := cpuTime(b)
	for range calls {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	return cpuTime(b) - before
}

// cpuTime returns the CPU time of this process, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// serveBare is the handler that one would write without a stack.
func serveBare(b *testing.B) (address string) {
	b.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /unary", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var in testpb.TestRequest
		if err := proto.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := proto.Marshal(&testpb.TestResponse{Body: in.Body})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", protobuf.message)
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	ended := make(chan struct{})
	go func() { _ = server.Serve(listener); close(ended) }()
	b.Cleanup(func() { _ = server.Close(); <-ended })
	return listener.Addr().String()
}

// bareClient is the client that one would write without a stack.
func bareClient(address string) func(context.Context, *testpb.TestRequest) (*testpb.TestResponse, error) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	return func(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		body, err := proto.Marshal(in)
		if err != nil {
			return nil, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/unary", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Content-Type", protobuf.message)
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server answered %s", response.Status)
		}
		out := new(testpb.TestResponse)
		return out, proto.Unmarshal(answer, out)
	}
}
