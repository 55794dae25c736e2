package fastgrpc

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"wirelab.dev/rpc/batchio"
)

// pacedConn accepts a number of bytes per second and records the longest write.
type pacedConn struct {
	net.Conn
	perSecond float64
	longest   atomic.Int64
}

func (c *pacedConn) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(float64(len(p)) / c.perSecond * float64(time.Second)))
	c.longest.Store(max(c.longest.Load(), int64(len(p))))
	return c.Conn.Write(p)
}

// TestOutputQueueFollowsWriteRate checks that a slow connection has a short output queue, so
// that short messages are not late, and a fast connection a long one, so that writes are
// few. In virtual time, a write ends only after the sender has filled the
// queue.
func TestOutputQueueFollowsWriteRate(t *testing.T) {
	const message = 32 << 10
	for name, c := range map[string]struct {
		perSecond float64
		queued    int64
	}{
		"slow":   {100e6, batchio.MinOutput},
		"middle": {2e9, 500_000},
		"fast":   {1e12, batchio.MaxOutput},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &pacedConn{perSecond: c.perSecond}
				sendMessages(t, conn, message)
				if n := conn.longest.Load(); n < c.queued || n > c.queued+2*message {
					t.Errorf("the longest write had %d bytes, want %d to %d", n, c.queued, c.queued+2*message)
				}
			})
		})
	}
}

// sendMessages sends over conn until its write rate is known, and then as much again.
func sendMessages(t *testing.T, conn *pacedConn, messageBytes int) {
	t.Helper()
	s := NewServer()
	testgrpc.RegisterTestServiceServer(s, echo{})
	defer s.Stop()
	client := dialFast(t, "passthrough:///pipe", WithContextDialer(func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _ = s.ServeConn(far) }() // ends with Stop
		conn.Conn = near
		return conn, nil
	}))
	defer func() { _ = client.Close() }()
	stream, err := testgrpc.NewTestServiceClient(client).StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := &testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, messageBytes)}}
	for range 2 {
		conn.longest.Store(0)
		for range 600 {
			if err := stream.Send(in); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
}
