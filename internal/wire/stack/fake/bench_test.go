package fake

import (
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// TestZeroDelayDoesNotAllocate counts the stack alone: the generated stub makes
// a response and a list of options around it.
func TestZeroDelayDoesNotAllocate(t *testing.T) {
	c := scripted(t, "fake")
	in, out := &echopb.Payload{Id: 1, Data: make([]byte, 64)}, &echopb.Payload{}
	ctx := t.Context()
	allocations := testing.AllocsPerRun(1000, func() {
		if c.Invoke(ctx, echopb.EchoService_Echo_FullMethodName, in, out) != nil {
			t.Error("a call failed")
		}
	})
	if allocations != 0 || out.Id != 1 {
		t.Errorf("%v allocations a call; the answer is %v", allocations, out)
	}
}

// BenchmarkInvoke is the fake alone, with nothing in its script.
func BenchmarkInvoke(b *testing.B) {
	c := scripted(b, "fake")
	in, out := &echopb.Payload{Id: 1, Data: make([]byte, 64)}, &echopb.Payload{}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Invoke(ctx, echopb.EchoService_Echo_FullMethodName, in, out); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEcho is a call of the echo workload over it: stub, timestamp, and
// the check of 64 bytes.
func BenchmarkEcho(b *testing.B) {
	caller := caller(scripted(b, "fake"))
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := caller.Call(ctx); err != nil {
			b.Fatal(err)
		}
		if err := caller.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDelay measures how late calls with a delay of 5 ms end.
func BenchmarkDelay(b *testing.B) {
	caller := caller(scripted(b, "fake:delay=5ms"))
	var late []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := caller.Call(b.Context()); err != nil {
			b.Fatal(err)
		}
		late = append(late, time.Since(start)-5*time.Millisecond)
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "µs-late")
}
