package creditrpc

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

func waiter() *clientCall { return &clientCall{signal: make(chan struct{}, 1)} }

func (c *clientCall) mayEncode() bool {
	select {
	case <-c.signal:
		return true
	default:
		return false
	}
}

// TestEncodersTakeTurns lets calls encode in the order of asking, as far as there is room, and
// counts none twice that leaves, waiting or not.
func TestEncodersTakeTurns(t *testing.T) {
	var e encodeQueue
	calls := []*clientCall{waiter(), waiter(), waiter(), waiter(), waiter()}
	sizes := []int{maxEncodedBytes - 100, 200, 50, maxEncodedBytes * 3, 10}
	for i, call := range calls {
		if now := e.enter(call, sizes[i]); now != (i == 0) {
			t.Fatalf("call %d entered: %v", i, now)
		}
	}
	calls[1].endEncoding() // given up: the third fits, and the fourth, which is longer than the room, does not
	if calls[1].mayEncode() || !calls[2].mayEncode() || calls[3].mayEncode() || calls[4].mayEncode() {
		t.Error("after the second gave up, not the third alone may encode")
	}
	calls[0].endEncoding()
	calls[0].endEncoding() // nothing to give back any more
	if calls[3].mayEncode() {
		t.Error("a request that is longer than the room may be encoded beside another")
	}
	calls[2].endEncoding()
	if !calls[3].mayEncode() || calls[4].mayEncode() {
		t.Error("a request that is longer than the room may not be encoded alone")
	}
	e.close()
	if !calls[4].mayEncode() {
		t.Error("a call waits for a connection that has ended")
	}
	if !e.enter(waiter(), maxEncodedBytes) {
		t.Error("a call begins to wait for a connection that has ended")
	}
	calls[3].endEncoding()
	calls[4].endEncoding()
	if e.ahead != maxEncodedBytes || len(e.waiting) > 0 {
		t.Errorf("%d bytes count, and %d calls wait", e.ahead, len(e.waiting))
	}
}

// TestRequestsEncodedLate makes more long calls at once than may be encoded ahead, gives some of
// them up, and wants all others answered and nothing counted in the end.
func TestRequestsEncodedLate(t *testing.T) {
	c := dial(t, serve(t, NewServer(), new(service)))
	client := testgrpc.NewTestServiceClient(c)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			in := request(make([]byte, 64<<10))
			for n := range 5 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 0 {
					time.AfterFunc(time.Duration(i+n)*20*time.Microsecond, cancel)
				}
				answer, err := client.UnaryCall(ctx, in)
				switch {
				case err != nil && (i%3 != 0 || status.Code(err) != codes.Canceled):
					t.Errorf("caller %d: %v", i, err)
				case err == nil && len(answer.GetPayload().GetBody()) != 64<<10:
					t.Errorf("caller %d: %d bytes came back", i, len(answer.GetPayload().GetBody()))
				}
				cancel()
			}
		})
	}
	all.Wait()
	cc := c.current
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	if cc.encoders.ahead != 0 || len(cc.encoders.waiting) > 0 {
		t.Errorf("%d bytes count, and %d calls wait", cc.encoders.ahead, len(cc.encoders.waiting))
	}
}
