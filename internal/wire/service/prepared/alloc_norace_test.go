//go:build !race

// The race detector makes pools forget, so allocations are counted without it.

package prepared

import (
	"testing"

	"wirelab.dev/internal/wire/service"
)

// A call of HTTP/1.1 allocates nothing. The server here allocates nothing either.
func TestHTTP1CallsDoNotAllocate(t *testing.T) {
	plan := cheapHTTP1(t, 64)
	client, counts := open(t, plan)
	var answer service.Answer
	allocations := testing.AllocsPerRun(1000, func() {
		if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil {
			t.Fatal(err)
		}
	})
	if allocations >= 1 {
		t.Errorf("%v allocations a call", allocations)
	}
	if n := counts.Counts().Opened; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A call of gRPC allocates nothing either. The server here is a loop, too.
func TestGRPCCallsDoNotAllocate(t *testing.T) {
	plan := cheapHTTP2(t, true, 64)
	client, _ := open(t, plan)
	var answer service.Answer
	allocations := testing.AllocsPerRun(1000, func() {
		if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil || answer.Messages != 1 {
			t.Fatal(err, answer)
		}
	})
	if allocations >= 1 {
		t.Errorf("%v allocations a call", allocations)
	}
}
