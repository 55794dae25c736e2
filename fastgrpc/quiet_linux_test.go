//go:build linux && !race

package fastgrpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// burner computes for as long as it is asked, without a system call.
type burner struct {
	testgrpc.UnimplementedTestServiceServer
}

func (burner) UnaryCall(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	for began := time.Now(); time.Since(began) < burn; {
	}
	return &testgrpc.SimpleResponse{}, nil
}

func (burner) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

const burn = 500 * time.Millisecond

// TestQuietCallsKeepTheMonitorInReach: where there is one processor, a handler that
// computes is preempted, so that another call is answered long before it ends, even
// though the traffic did not wake the runtime's monitor. The server is a process of
// its own, because whatever else a test does wakes it.
func TestQuietCallsKeepTheMonitorInReach(t *testing.T) {
	if os.Getenv(asBurner) != "" {
		serveBurner(t)
		return
	}
	server := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	server.Env = append(os.Environ(), asBurner+"=1", "GOMAXPROCS=1")
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = server.Wait()
	}()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	stub := testgrpc.NewTestServiceClient(dialFast(t, strings.TrimSpace(address)))
	ctx := testContext(t)
	call := func() {
		if _, err := stub.EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
			t.Error(err)
		}
	}
	for _, pause := range []time.Duration{0, beatEvery, 30 * beatEvery} { // the last stops the heart
		for range 10 {
			call()
		}
		time.Sleep(pause)
		began, burning := time.Now(), make(chan struct{})
		go func() {
			defer close(burning)
			if _, err := stub.UnaryCall(ctx, &testgrpc.SimpleRequest{}); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(burn / 10)
		call()
		answered := time.Since(began)
		<-burning
		if answered > burn {
			t.Errorf("after a pause of %v a handler computed for %v, and no call was answered for %v", pause, burn, answered)
		}
	}
}

// asBurner makes the test a server.
const asBurner = "FASTGRPC_TEST_AS_BURNER"

func serveBurner(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer()
	testgrpc.RegisterTestServiceServer(s, burner{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		s.Stop()
	}()
	fmt.Println(lis.Addr())
	if err := s.Serve(lis); err != nil {
		t.Log(err)
	}
}

func TestHeartbeat(t *testing.T) {
	var h heartbeat
	if h.allows(longestQuiet + 1) {
		t.Error("a long call was allowed to be quiet")
	}
	if h.allows(1) {
		t.Error("the first call was quiet: nothing woke the monitor")
	}
	if !h.allows(1) {
		t.Error("the second call was not quiet, though the heart beats")
	}
	for deadline := time.Now().Add(5 * time.Second); h.beating.Load(); time.Sleep(beatEvery) {
		if time.Now().After(deadline) {
			t.Fatal("the heart still beats without traffic")
		}
	}
	if h.allows(1) {
		t.Error("the first call after a pause was quiet")
	}
}
