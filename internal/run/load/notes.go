package load

import (
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// fail counts a failed call. It may allocate: the generator's cost matters only in
// trials without failures.
func (c *client) fail(err error) {
	class := c.classify(err)
	counted := lists.FindOrAdd(&c.failures, class, func(f record.ErrorCount) bool { return f.Class == class.Class && f.Code == class.Code })
	if counted.Count++; counted.Count == 1 {
		counted.Example = err.Error()
	}
}

// note records the name, status, trace and message times of a call that began in the window.
func (c *client) note(course *call, begin int64, err error) {
	c.named.record(course, err)
	if c.answered != nil {
		if status, is := c.answered.Status(); is {
			lists.FindOrAdd(&c.statuses, record.StatusCount{Status: status}, func(s record.StatusCount) bool { return s.Status == status }).Count++
		}
	}
	if c.traced != nil {
		if id := c.traced.Trace(); id != "" {
			c.traces.note(record.Trace{ID: id, ServiceNS: course.ended - course.sent, AfterNS: course.sent - begin, Failed: err != nil})
		}
	}
	if c.streamer != nil {
		for _, took := range c.streamer.MessageTimes() {
			c.messages.Record(int64(took))
		}
	}
}

// A Streamer is a Caller whose calls may be streams. If Streams returns true, MessageTimes returns
// the time of each message of the last call's answer. The engine reads it before the next call.
type Streamer interface {
	Streams() bool
	MessageTimes() []time.Duration
}

// streamerOf returns the caller as a Streamer, or nil if its calls are no streams.
func streamerOf(caller Caller) Streamer {
	if s, is := caller.(Streamer); is && s.Streams() {
		return s
	}
	return nil
}

// A Thinker is a Caller that pauses between calls. Think returns the time that its client waits, in
// a closed loop, from the end of the last call to the next. In an open loop, arrivals decide.
type Thinker interface {
	Think() time.Duration
}

// An Answered is a Caller whose answers have a status. Status returns that of the last call's
// answer, and false if there was none.
type Answered interface {
	Status() (status int, answered bool)
}

// A Traced is a Caller whose calls may have a trace. Trace returns the identifier of the last
// call's trace in a tracing system, or "".
type Traced interface {
	Trace() string
}

type traces struct {
	count   int64
	slowest []record.Trace // slowest first
}

// note keeps a call if it is among the slowest. Few calls have a trace, and moving some others
// costs little compared to making a trace.
func (t *traces) note(one record.Trace) {
	t.count++
	if len(t.slowest) == record.KeptTraces && one.ServiceNS <= t.slowest[record.KeptTraces-1].ServiceNS {
		return
	}
	at, _ := slices.BinarySearchFunc(t.slowest, one, record.Trace.CompareSlower)
	t.slowest = slices.Insert(t.slowest, at, one)
	t.slowest = t.slowest[:min(len(t.slowest), record.KeptTraces)]
}

// A Named is a Caller whose calls are of several kinds. Name returns the name of the last call, or
// "". Calls without a name, and those beyond mostNames names, count only in the totals.
type Named interface {
	Name() string
}

// mostNames bounds the memory of the records by name.
const mostNames = 64

// byName holds one client's records of calls by name. There are few names, so that a list is
// faster than a map.
type byName struct {
	caller  Named // nil: calls have no names
	open    bool  // response times differ from service times
	all     []*namedCalls
	current *namedCalls // of the last call; nil: the call has no name
}

type namedCalls struct {
	record.NamedCalls
	service, response *latency.Recorder
}

func (b *byName) find() {
	b.current = nil
	if b.caller == nil {
		return
	}
	name := b.caller.Name()
	if name == "" {
		return
	}
	if i := slices.IndexFunc(b.all, func(one *namedCalls) bool { return one.Name == name }); i >= 0 {
		b.current = b.all[i]
		return
	}
	if len(b.all) == mostNames {
		return
	}
	b.current = &namedCalls{NamedCalls: record.NamedCalls{Name: name}, service: latency.NewRecorder()}
	if b.open {
		b.current.response = latency.NewRecorder()
	}
	b.all = append(b.all, b.current)
}

// complete counts a call that ended in the window.
func (b *byName) complete(err error) {
	if b.current == nil {
		return
	}
	b.current.Completed++
	if err == nil {
		b.current.CompletedWell++
	}
}

// record stores the times of a call that began in the window.
func (b *byName) record(course *call, err error) {
	if b.current == nil {
		return
	}
	b.current.Requests++
	if err != nil {
		b.current.Failed++
	}
	b.current.service.Record(course.ended - course.sent)
	if b.open {
		b.current.response.Record(course.ended - course.intended)
	}
}

func (b *byName) release() {
	for _, one := range b.all {
		one.service.Close()
		if one.response != nil {
			one.response.Close()
		}
	}
	b.all = nil
}

type namedResult struct {
	record.NamedCalls
	service, response *latency.Histogram // response is nil where it is the service time
}
