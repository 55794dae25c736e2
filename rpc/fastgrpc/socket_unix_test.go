//go:build unix

package fastgrpc

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"wirelab.dev/rpc/batchio"
)

// TestFullSocketBlocksNoCaller checks callers that write a batch to a server that has
// stopped reading: none waits longer than its context, and when the server reads again,
// frames that were begun are completed in order.
func TestFullSocketBlocksNoCaller(t *testing.T) {
	checkFullSocket(t, func(testing.TB, net.Conn) {})
}

func checkFullSocket(t *testing.T, prepare func(testing.TB, net.Conn)) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	c := dialFast(t, lis.Addr().String(), WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			prepare(t, nc)
			err = nc.(*net.TCPConn).SetWriteBuffer(8 << 10)
		}
		return nc, err
	}))
	stub := testgrpc.NewTestServiceClient(c)

	const callers = 200
	ctx, cancel := context.WithCancel(testContext(t))
	var calling sync.WaitGroup
	in := request(make([]byte, batchio.MinReferenceLen-1000))
	for range callers {
		calling.Go(func() {
			if _, err := stub.UnaryCall(ctx, in); status.Code(err) != codes.Canceled {
				t.Errorf("a call that is never answered ended with %v", err)
			}
		})
	}
	nc, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if err := nc.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(nc, nc)
	fr.SetMaxReadFrameSize(1 << 20)
	if err := fr.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := fr.WriteWindowUpdate(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	eventually(t, "for the calls to begin", func() bool {
		conns := c.Conns()
		return len(conns) == 1 && conns[0].Counters.CallsStarted == callers
	})
	cancel()
	calling.Wait()

	// Everything queued arrives as whole frames: some calls, and the resets of all.
	_ = nc.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
		t.Fatal(err)
	}
	opened, resets := 0, 0
	for opened == 0 || resets < opened {
		frame, err := fr.ReadFrame()
		if err != nil {
			t.Fatalf("after %d requests and %d resets: %v", opened, resets, err)
		}
		switch frame.(type) {
		case *http2.HeadersFrame:
			opened++
		case *http2.RSTStreamFrame:
			resets++
		}
	}
	if opened < callers/2 {
		t.Errorf("%d of %d calls reached the wire", opened, callers)
	}
}

// cpuTime returns the CPU time of the process, from the kernel: the runtime's figure
// includes time in which other processes ran.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // attacks are then checked for memory only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
