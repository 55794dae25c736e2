package load

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
)

// Traced is an optional ability of a Caller: Trace is the identifier of the last call's trace,
// by which a tracing system knows it; empty where it has none.
type Traced interface {
	Trace() string
}

// KeptTraces is how many traces a result names, those of the slowest calls.
const KeptTraces = 10

// traces are those of the slowest calls of a client.
type traces struct {
	count   int64
	slowest []record.Trace // slowest first
}

// note keeps a call if it is among the slowest. Few calls have a trace: that it may move some
// others counts for nothing beside making one.
func (t *traces) note(one record.Trace) {
	t.count++
	if len(t.slowest) == KeptTraces && one.ServiceNS <= t.slowest[KeptTraces-1].ServiceNS {
		return
	}
	at, _ := slices.BinarySearchFunc(t.slowest, one, slowerFirst)
	t.slowest = slices.Insert(t.slowest, at, one)
	t.slowest = t.slowest[:min(len(t.slowest), KeptTraces)]
}

func slowerFirst(a, b record.Trace) int {
	return cmp.Or(cmp.Compare(b.ServiceNS, a.ServiceNS), cmp.Compare(a.AfterNS, b.AfterNS))
}

// noteTrace notes the trace of a call that began in the window.
func (c *client) noteTrace(course *call, begin int64, err error) {
	if c.traced == nil {
		return
	}
	if id := c.traced.Trace(); id != "" {
		c.traces.note(record.Trace{ID: id, ServiceNS: course.ended - course.sent, AfterNS: course.sent - begin, Failed: err != nil})
	}
}

// tracesOf are those of all clients.
func tracesOf(clients []*client) (slowest []record.Trace, count int64) {
	for _, one := range clients {
		slowest = append(slowest, one.traces.slowest...)
		count += one.traces.count
	}
	slices.SortFunc(slowest, slowerFirst)
	return slowest[:min(len(slowest), KeptTraces)], count
}
