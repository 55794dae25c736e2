package load

import (
	"fmt"
	"testing"

	"wirelab.dev/internal/data/record"
)

// The slowest calls of all clients are named, slowest first, and all are counted.
func TestTheSlowestTracesAreKept(t *testing.T) {
	const calls = 500
	clients := []*client{{}, {}, {}}
	for i := range calls {
		took := int64(i*7919%calls) + 1 // each once, in no order
		clients[i%len(clients)].traces.addTrace(record.Trace{ID: fmt.Sprint(took), ServiceNS: took})
	}
	slowest, count := mergeTraces(clients)
	if count != calls || len(slowest) != record.KeptTraces {
		t.Fatalf("%d traces; %d are kept", count, len(slowest))
	}
	for i, one := range slowest {
		if want := int64(calls - i); one.ServiceNS != want || one.ID != fmt.Sprint(want) {
			t.Errorf("place %d has %+v, want %d", i, one, want)
		}
	}
}

// tracedCaller is in a trace with each second call.
type tracedCaller struct{ calls int }

func (c *tracedCaller) Trace() string {
	if c.calls++; c.calls%2 == 0 {
		return ""
	}
	return fmt.Sprintf("%032x", c.calls)
}

// A call is noted with its service time and its place in the window.
func TestATraceOfTheWindow(t *testing.T) {
	c := &client{traced: &tracedCaller{}}
	for i := range 4 {
		c.recordDetails(&call{intended: 10, sent: int64(20 + i), ended: int64(50 + 3*i)}, 5, nil)
	}
	slowest, count := mergeTraces([]*client{c})
	want := record.Trace{ID: fmt.Sprintf("%032x", 3), ServiceNS: 34, AfterNS: 17}
	if count != 2 || slowest[0] != want {
		t.Errorf("%d traces, the slowest %+v, want %+v", count, slowest[0], want)
	}
	if none, count := mergeTraces([]*client{{}}); len(none) != 0 || count != 0 {
		t.Errorf("of a client without traces: %v, %d", none, count)
	}
}
