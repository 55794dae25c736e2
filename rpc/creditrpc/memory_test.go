package creditrpc

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// unread opens streams, sends messages that nobody reads until the senders stand still, and
// returns how many they were. On a slow machine that may be early, which is no failure.
func unread(t *testing.T, c testgrpc.TestServiceClient, m *mute, streams, size int, up bool) (messages int64) {
	t.Helper()
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
	for before := int64(-1); before != m.sent.Load() || before == 0; time.Sleep(100 * time.Millisecond) {
		before = m.sent.Load()
	}
	return m.sent.Load()
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
				c := testgrpc.NewTestServiceClient(dial(t, serve(t, NewServer(), m)))
				if _, err := c.UnaryCall(t.Context(), request(nil)); err != nil {
					t.Fatal(err)
				}
				before := liveHeap()
				messages := unread(t, c, m, streams, size, up)
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

// liveHeap returns the bytes of reachable objects.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep their memory for one collection
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
