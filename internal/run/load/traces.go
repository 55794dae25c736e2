package load

import (
	"slices"

	"wirelab.dev/internal/data/record"
)

// A Traced is a Caller whose calls may have a trace. Trace returns the identifier of the last
// call's trace in a tracing system, or "".
type Traced interface {
	Trace() string
}

// traces holds the traces of a client's slowest calls.
type traces struct {
	count   int64
	slowest []record.Trace // slowest first
}

// note keeps a call if it is among the slowest. Few calls have a trace, and to move some others
// costs little beside making a trace.
func (t *traces) note(one record.Trace) {
	t.count++
	if len(t.slowest) == record.KeptTraces && one.ServiceNS <= t.slowest[record.KeptTraces-1].ServiceNS {
		return
	}
	at, _ := slices.BinarySearchFunc(t.slowest, one, record.Trace.CompareSlower)
	t.slowest = slices.Insert(t.slowest, at, one)
	t.slowest = t.slowest[:min(len(t.slowest), record.KeptTraces)]
}
