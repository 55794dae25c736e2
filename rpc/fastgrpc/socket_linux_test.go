//go:build !386

package fastgrpc

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"wirelab.dev/rpc/batchio"
)

// makeBlocking does what a program does that sets an option of its socket: Fd makes all
// copies of the descriptor blocking.
func makeBlocking(t testing.TB, nc net.Conn) {
	t.Helper()
	f, err := nc.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Fd()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullBlockingSocketBlocksNoCaller is TestFullSocketBlocksNoCaller on a socket that
// somebody has made blocking.
func TestFullBlockingSocketBlocksNoCaller(t *testing.T) { checkFullSocket(t, makeBlocking) }

// blockingEnds makes the sockets of both ends blocking: early ones before the library
// has them, the others when all is called.
type blockingEnds struct {
	net.Listener
	t     testing.TB
	early bool
	mu    sync.Mutex
	conns []net.Conn
}

func (b *blockingEnds) add(nc net.Conn) {
	if b.early {
		makeBlocking(b.t, nc)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = append(b.conns, nc)
}

func (b *blockingEnds) all() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, nc := range b.conns {
		makeBlocking(b.t, nc)
	}
}

func (b *blockingEnds) n() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

func (b *blockingEnds) Accept() (net.Conn, error) {
	nc, err := b.Listener.Accept()
	if err == nil {
		b.add(nc)
	}
	return nc, err
}

func (b *blockingEnds) dial(ctx context.Context, address string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		b.add(nc)
	}
	return nc, err
}

// asBlocked is the environment variable that makes the test process call on blocking
// sockets: where that goes wrong, nothing in the process can end it.
const asBlocked = "FASTGRPC_TEST_AS_BLOCKED"

// TestBlockingDescriptors checks that calls go on, and garbage is collected, on sockets
// that somebody has made blocking.
func TestBlockingDescriptors(t *testing.T) {
	if os.Getenv(asBlocked) != "" {
		defer checkRaw(t, os.Getenv("FASTGRPC_RAW") == "off")
		callOnBlockingSockets(t, false)
		callOnBlockingSockets(t, true)
		return
	}
	for _, raw := range []string{"on", "off"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		caller := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
		caller.Env = append(os.Environ(), asBlocked+"=1", "FASTGRPC_RAW="+raw)
		if out, err := caller.CombinedOutput(); err != nil {
			t.Errorf("FASTGRPC_RAW=%s: %v (%v)\n%s", raw, err, context.Cause(ctx), out)
		}
	}
}

// checkRaw checks that raw system calls, which need the timer, were off if so asked.
func checkRaw(t *testing.T, off bool) {
	if off && !batchio.NoRawCalls() {
		t.Error("raw system calls were not off")
	}
}

func callOnBlockingSockets(t *testing.T, early bool) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ends := &blockingEnds{Listener: lis, t: t, early: early}
	s := NewServer()
	testgrpc.RegisterTestServiceServer(s, echo{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(ends)
	}()
	c := dialFast(t, lis.Addr().String(), WithContextDialer(ends.dial))
	stub := testgrpc.NewTestServiceClient(c)

	collect := func() { // the sockets are quiet now and then
		for range 5 {
			runtime.GC()
		}
	}
	const rounds = 4
	for range rounds {
		collect()
		var calling sync.WaitGroup
		for i := range 20 {
			calling.Go(func() {
				if _, err := stub.UnaryCall(testContext(t), request(make([]byte, i*i*500))); err != nil {
					t.Error(err)
				}
			})
		}
		collect()
		calling.Wait()
		checkDuplex(testContext(t), t, stub)
		ends.all()
	}
	silent, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	eventually(t, "for a silent connection", func() bool { return ends.n() == 3 })
	ends.all()
	_ = c.Close()
	s.Stop()
	<-served
	collect()
}
