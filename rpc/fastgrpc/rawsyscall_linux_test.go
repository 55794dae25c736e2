//go:build linux && !386 && !race && !fastgrpc_noraw

package fastgrpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// burner computes without a system call until another call is answered.
type burner struct {
	testgrpc.UnimplementedTestServiceServer
	answered atomic.Int64
}

func (b *burner) UnaryCall(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	before := b.answered.Load()
	for began := time.Now(); b.answered.Load() == before; {
		if time.Since(began) > longestBurn {
			return nil, errors.New("no other call was answered")
		}
	}
	return &testgrpc.SimpleResponse{}, nil
}

func (b *burner) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	b.answered.Add(1)
	return &testgrpc.Empty{}, nil
}

// longestBurn is far less than the minute after which the runtime's monitor wakes
// without a cause.
const longestBurn = 15 * time.Second

// TestRawSyscallsStillAllowPreemption checks that on one processor a handler that computes is
// preempted, so another call is answered, although raw system calls do not wake the
// runtime's monitor. The server is a process of its own, because other work in the test
// process would wake the monitor.
func TestRawSyscallsStillAllowPreemption(t *testing.T) {
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
	for _, pause := range []time.Duration{0, tick, 30 * tick} { // the last stops the timer
		for range 10 {
			call()
		}
		time.Sleep(pause)
		burning := make(chan error, 1)
		go func() {
			_, err := stub.UnaryCall(ctx, &testgrpc.SimpleRequest{})
			burning <- err
		}()
		time.Sleep(50 * time.Millisecond) // most likely it computes now; what comes earlier is another call like those above
		for done := false; !done; {
			call()
			select {
			case err := <-burning:
				if done = true; err != nil {
					t.Errorf("after a pause of %v a handler computed: %v", pause, err)
				}
			default:
			}
		}
	}
}

// tick is the interval of package batchio's timer while there are raw system calls.
const tick = 10 * time.Millisecond

// asBurner is the environment variable that makes the test process the server.
const asBurner = "FASTGRPC_TEST_AS_BURNER"

func serveBurner(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer()
	testgrpc.RegisterTestServiceServer(s, &burner{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		s.Stop()
	}()
	fmt.Println(lis.Addr())
	if err := s.Serve(lis); err != nil {
		t.Log(err)
	}
}
