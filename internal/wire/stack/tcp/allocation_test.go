//go:build !race

// The race detector makes allocations of its own.

package tcp

import (
	"testing"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// TestAllocations pins what a plain call allocates at both ends together, to
// show that buffers=pooled allocates no frame, and fresh one for each of the
// four.
func TestAllocations(t *testing.T) {
	const (
		messages = 4 // request and response, each a Payload and its data
		options  = 1 // the generated stub's slice of call options
		interest = 2 // in the end of the context, which can be cancelled
		frames   = 4 // request and response, written and read
	)
	for variant, want := range map[string]float64{
		"tcp":                messages + options + interest + frames,
		"tcp:buffers=pooled": messages + options + interest,

		"tcp:buffers=pooled-client": messages + options + interest + frames/2,
		"tcp:buffers=pooled-server": messages + options + interest + frames/2,
	} {
		target := stack.Target{Address: startEcho(t, variant), Operations: 1}
		client, err := Stack{}.NewClient(t.Context(), parse(t, variant), target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		call, in := callerOf(t, client), &echopb.Payload{Id: 1, Data: make([]byte, 1000)}
		got := testing.AllocsPerRun(1000, func() {
			if _, err := call(in); err != nil {
				t.Fatal(err)
			}
		})
		if got > want {
			t.Errorf("%s: %v allocations a call, want at most %v", variant, got, want)
		}
	}
}
