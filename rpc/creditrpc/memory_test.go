package creditrpc

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// mute is a service whose streams nobody reads: its handlers send, or wait.
type mute struct {
	service
	sent atomic.Int64 // messages of all senders, whichever end they are
}

func (m *mute) FullDuplexCall(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	<-s.Context().Done()
	return nil
}

func (m *mute) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, out grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	message := new(testgrpc.StreamingOutputCallResponse)
	if n := in.GetResponseParameters()[0].GetSize(); n > 0 {
		message.Payload = &testgrpc.Payload{Body: make([]byte, n)}
	}
	for m.sent.Load() < tooMany && out.Send(message) == nil {
		m.sent.Add(1)
	}
	<-out.Context().Done()
	return nil
}

// tooMany messages were let through without any credit.
const tooMany = 300_000

// unread opens streams, sends messages that nobody reads until all senders wait for credit, and
// returns how many they were.
func unread(t *testing.T, client *Client, server *Server, m *mute, streams, size int, up bool) (messages int64) {
	t.Helper()
	c := testgrpc.NewTestServiceClient(client)
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		senders.Wait()
	})
	for range streams {
		if !up {
			in := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: int32(size)}}}
			if _, err := c.StreamingOutputCall(ctx, in); err != nil {
				t.Fatal(err)
			}
			continue
		}
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		message := new(testgrpc.StreamingOutputCallRequest)
		if size > 0 {
			message.Payload = &testgrpc.Payload{Body: make([]byte, size)}
		}
		senders.Go(func() {
			for m.sent.Load() < tooMany && stream.Send(message) == nil {
				m.sent.Add(1)
			}
		})
	}
	waitFor(t, "all senders wait for credit", func() bool {
		return m.sent.Load() >= tooMany || waitingSenders(client, server) == streams
	})
	return m.sent.Load()
}

// waitingSenders counts the streams with a message that waits for credit. It returns -1 while
// frames are under way.
func waitingSenders(client *Client, server *Server) (streams int) {
	look := func(c *conn) (in, out uint64) {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		for _, s := range c.link.All() {
			if !s.Idle() {
				streams++
			}
		}
		return c.Counters.BytesIn, c.Counters.BytesOut + uint64(c.link.Pending())
	}
	server.conns.Mu.Lock()
	open := server.conns.All()
	server.conns.Mu.Unlock()
	in, out := look(&open[0].conn)
	client.conns.Mu.Lock()
	cc := client.current
	client.conns.Mu.Unlock()
	if came, went := look(&cc.conn); came != out || went != in {
		return -1
	}
	return streams
}

// What nobody reads takes no more memory than three times what its window says, what the senders
// hold included, however short the
// messages are, at either end.
func TestUnreadMessagesCostWhatTheirWindowSays(t *testing.T) {
	const streams, window = 20, 256 << 10
	for _, up := range []bool{true, false} {
		for _, size := range []int{0, 1, 30, 600, 4500, 20_000} {
			t.Run(fmt.Sprintf("up=%v/%d", up, size), func(t *testing.T) {
				m := new(mute)
				server := NewServer()
				client := dial(t, serve(t, server, m))
				if _, err := testgrpc.NewTestServiceClient(client).UnaryCall(t.Context(), request(nil)); err != nil {
					t.Fatal(err)
				}
				before := liveHeap()
				messages := unread(t, client, server, m, streams, size, up)
				grown := liveHeap() - before
				t.Logf("%d messages, %d bytes each; %.2f of the windows", messages, grown/max(1, messages), float64(grown)/(streams*window))
				if messages >= tooMany {
					t.Error("the senders never had to wait")
				}
				if grown > 3*streams*window {
					t.Errorf("%d streams keep %d bytes, and their windows have %d", streams, grown, streams*window)
				}
			})
		}
	}
}

// TestUnreadStreamsStopNoOthers checks that calls go on beside streams that nobody reads.
func TestUnreadStreamsStopNoOthers(t *testing.T) {
	for _, up := range []bool{true, false} {
		t.Run(fmt.Sprintf("up=%v", up), func(t *testing.T) {
			m, server := new(mute), NewServer()
			client := dial(t, serve(t, server, m))
			if unread(t, client, server, m, 1000, 10_000, up) >= tooMany {
				t.Error("the senders never had to wait")
			}
			for _, size := range []int{1, 100_000, 3 << 20} {
				out, err := testgrpc.NewTestServiceClient(client).UnaryCall(t.Context(), request(make([]byte, size)))
				if err != nil || len(out.Payload.Body) != size {
					t.Errorf("a call of %d bytes: %v", size, err)
				}
			}
		})
	}
}

// liveHeap returns the bytes of reachable objects.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep their memory for one collection
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
