package fastgrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// watchedConn counts the reads and writes that go through it.
type watchedConn struct {
	net.Conn
	reads, writes atomic.Int64
}

func (w *watchedConn) Read(p []byte) (int, error) {
	w.reads.Add(1)
	return w.Conn.Read(p)
}

func (w *watchedConn) Write(p []byte) (int, error) {
	w.writes.Add(1)
	return w.Conn.Write(p)
}

// openConn is a watchedConn that is Transparent.
type openConn struct{ *watchedConn }

func (o openConn) Socket() net.Conn { return o.Conn }

// TestTransparentConnection checks that a Transparent wrapper sees only the first read
// and no long write, and that any other wrapper sees everything.
func TestTransparentConnection(t *testing.T) {
	_, target := startFast(t)
	for _, transparent := range []bool{true, false} {
		watched := &watchedConn{}
		c := dialFast(t, target, WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			watched.Conn = nc
			if transparent {
				return openConn{watched}, err
			}
			return watched, err
		}))
		stub := testgrpc.NewTestServiceClient(c)
		const calls = 10
		in := request(bytes.Repeat([]byte{7}, 100<<10))
		for range calls {
			out, err := stub.UnaryCall(testContext(t), in)
			if err != nil || !bytes.Equal(out.Payload.Body, in.Payload.Body) {
				t.Fatalf("transparent %v: %v", transparent, err)
			}
		}
		reads, writes := watched.reads.Load(), watched.writes.Load()
		if transparent && (reads != 1 || writes >= calls) {
			t.Errorf("a transparent wrapper saw %d reads, want 1, and %d writes in %d long calls", reads, writes, calls)
		}
		if !transparent && (reads < calls || writes < calls) {
			t.Errorf("a wrapper saw %d reads and %d writes in %d calls, want all", reads, writes, calls)
		}
	}
}

// TestCauses checks that the connection's error is found in the errors of its calls, but
// never as the io.EOF of a stream that was read to its end.
func TestCauses(t *testing.T) {
	server, address := startFast(t)
	to := newElsewhere(t)
	to.address.Store(address)
	c := dialFast(t, "passthrough:///any", WithContextDialer(to.dial))
	stream, err := testgrpc.NewTestServiceClient(c).FullDuplexCall(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	to.leave()
	server.Stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || errors.Is(err, io.EOF) {
		t.Errorf("a stream whose server went ended with %v (%T), want Unavailable and no io.EOF within", err, err)
	}
	for refused := false; !refused; {
		_, err := testgrpc.NewTestServiceClient(c).UnaryCall(testContext(t), request(nil))
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("a call to nobody: %v", err)
		}
		refused = errors.Is(err, syscall.ECONNREFUSED) // the first may find the old connection leaving
	}
}
