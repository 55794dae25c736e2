package fastgrpc

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// slowConn takes so many bytes a second and remembers the last long write.
type slowConn struct {
	net.Conn
	perSecond float64 // 0 is as fast as it goes
	longest   atomic.Int64
}

func (c *slowConn) Write(p []byte) (int, error) {
	if c.perSecond > 0 {
		time.Sleep(time.Duration(float64(len(p)) / c.perSecond * float64(time.Second)))
	}
	c.longest.Store(max(c.longest.Load(), int64(len(p))))
	return c.Conn.Write(p)
}

// TestQueueFollowsThePace: what waits for a slow socket is short, so that a short
// message is not late; what waits for a fast one makes few long writes.
func TestQueueFollowsThePace(t *testing.T) {
	const message = 32 << 10
	for name, c := range map[string]struct {
		perSecond   float64
		least, most int64
	}{
		"slow": {perSecond: 100e6, least: message, most: leastOutput + 2*message},
		"fast": {least: 2 * leastOutput, most: mostOutput + 2*message},
	} {
		t.Run(name, func(t *testing.T) {
			_, target := startFast(t)
			conn := &slowConn{perSecond: c.perSecond}
			client := dialFast(t, target, WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				conn.Conn = nc
				return conn, err
			}))
			stream, err := testgrpc.NewTestServiceClient(client).StreamingInputCall(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			in := &testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, message)}}
			send := func(messages int) {
				for range messages {
					if err := stream.Send(in); err != nil {
						t.Fatal(err)
					}
				}
			}
			send(600) // until the pace is known
			conn.longest.Store(0)
			send(600)
			if n := conn.longest.Load(); n < c.least || n > c.most {
				t.Errorf("the longest write had %d bytes, want %d to %d", n, c.least, c.most)
			}
			if _, err := stream.CloseAndRecv(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
