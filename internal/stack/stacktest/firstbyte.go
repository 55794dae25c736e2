package stacktest

import (
	"testing"
	"time"

	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest/testpb"
)

// checkFirstByte recovers the time that a handler takes, once a call: what a
// wire says before the answer is no first byte of it. A connection that is kept
// has no first byte to speak of.
func checkFirstByte(t testing.TB, s Subject) {
	const calls, slowness = 3, 20 * time.Millisecond
	r := start(t, s)
	dialer := &stack.Dialer{}
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: r.address, Dialer: dialer}))
	dialer.TakeTimes().Close() // a client may have made a call of its own before it was ready
	begin := time.Now()
	for range calls {
		if _, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: []byte("x"), SleepNs: int64(slowness)}); err != nil {
			t.Fatalf("Unary: %v", err)
		}
	}
	took := time.Since(begin)
	times := dialer.TakeTimes()
	defer times.Close()
	if s.Lifecycle == stack.Kept {
		if times.FirstByte != nil {
			t.Errorf("connections that are kept have %d times to first byte", times.FirstByte.Count())
		}
		return
	}
	if times.FirstByte == nil {
		t.Fatal("no time to first byte")
	}
	seen := latency.NewHistogram(times.FirstByte)
	if seen.Count() != calls || seen.Min() < slowness || seen.Max() > took {
		t.Errorf("%d calls in %v, each at least %v long: %d times to first byte, from %v to %v",
			calls, took, slowness, seen.Count(), seen.Min(), seen.Max())
	}
}
