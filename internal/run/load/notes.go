package load

import (
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// countFailure counts a failed call. It may allocate memory: the generator's own cost matters
// only in trials without failures.
func (c *client) countFailure(err error) {
	class := c.classify(err)
	counted := lists.FindOrAdd(&c.failures, class, func(f record.ErrorCount) bool { return f.Class == class.Class && f.Code == class.Code })
	if counted.Count++; counted.Count == 1 {
		counted.Example = err.Error()
	}
}

// recordDetails records the name, status, size, trace and message times of a call that began in the
// window.
func (c *client) recordDetails(course *call, begin int64, err error) {
	c.named.recordTimes(course, err)
	c.placed.recordTimes(course, err)
	if c.answered != nil {
		if status, is := c.answered.Status(); is {
			lists.FindOrAdd(&c.statuses, record.StatusCount{Status: status}, func(s record.StatusCount) bool { return s.Status == status }).Count++
		}
	}
	if c.bytes != nil {
		c.bytes.AddBytes(&c.carried)
	}
	if c.repeats != nil {
		c.resent += int64(c.repeats.Resent())
	}
	if c.sized != nil && err == nil {
		c.answers.count(c.sized.AnswerBytes())
	}
	if c.traced != nil {
		if id := c.traced.Trace(); id != "" {
			c.traces.addTrace(record.Trace{ID: id, ServiceNS: course.ended - course.sent, AfterNS: course.sent - begin, Failed: err != nil})
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

// streamerOf returns the caller as a Streamer, or nil if its calls are not streams.
func streamerOf(caller Caller) Streamer {
	if s, is := caller.(Streamer); is && s.Streams() {
		return s
	}
	return nil
}

// A Waiter is a Caller whose calls wait for something that the server sends at its own time. A call
// with an Unfinished error was cut short by the end of the load: it is not counted, and its time is
// think time.
type Waiter interface {
	Unfinished(err error) bool
}

// A Thinker is a Caller that pauses between calls. Think returns the time that its client waits
// after a call. Only a closed loop uses it; an open loop follows its schedule.
type Thinker interface {
	Think() time.Duration
}

// A StatusCaller is a Caller whose answers have a status. Status returns the status of the last
// call's answer, and false if there was no answer.
type StatusCaller interface {
	Status() (status int, answered bool)
}

// A BytesCaller is a Caller that knows the bytes of its calls. AddBytes adds those of the last call.
type BytesCaller interface {
	AddBytes(to *record.CallBytes)
}

// A RepeatCaller is a Caller that may send a call more than once. Resent returns how often the last
// call was sent again.
type RepeatCaller interface {
	Resent() int
}

// A SizedCaller is a Caller whose answers have a size. AnswerBytes returns the size of the last
// call's answer.
type SizedCaller interface {
	AnswerBytes() int64
}

// answerSizes counts the answers of one client by size. Sizes are few as a rule, so a list is
// faster than a map. Sizes beyond record.KeptSizes are counted by their range.
type answerSizes struct {
	sizes    []record.SizeCount
	ranges   []int64 // nil until there are too many sizes
	from, to int64   // the smallest and the largest size
}

func (a *answerSizes) count(bytes int64) {
	if len(a.sizes) == 0 {
		a.from, a.to = bytes, bytes
	}
	a.from, a.to = min(a.from, bytes), max(a.to, bytes)
	for i := range a.sizes {
		if a.sizes[i].Bytes == bytes {
			a.sizes[i].Count++
			return
		}
	}
	if len(a.sizes) < record.KeptSizes {
		a.sizes = append(a.sizes, record.SizeCount{Bytes: bytes, Count: 1})
		return
	}
	if a.ranges == nil {
		a.ranges = make([]int64, record.SizeRanges)
	}
	a.ranges[record.SizeRange(bytes)]++
}

// A TraceCaller is a Caller whose calls may have a trace. Trace returns the identifier of the last
// call's trace in a tracing system, or "".
type TraceCaller interface {
	Trace() string
}

type slowestTraces struct {
	count   int64
	slowest []record.Trace // slowest first
}

// addTrace counts a trace, and keeps it if its call is among the slowest.
func (t *slowestTraces) addTrace(one record.Trace) {
	t.count++
	if len(t.slowest) == record.KeptTraces && one.ServiceNS <= t.slowest[record.KeptTraces-1].ServiceNS {
		return
	}
	at, _ := slices.BinarySearchFunc(t.slowest, one, record.Trace.CompareSlower)
	t.slowest = slices.Insert(t.slowest, at, one)
	t.slowest = t.slowest[:min(len(t.slowest), record.KeptTraces)]
}

// A NamedCaller is a Caller whose calls are of several kinds. Name returns the name of the last
// call, or "". Calls without a name count only in the totals, and so do calls beyond maxCallNames
// names.
type NamedCaller interface {
	Name() string
}

// An AddressCaller is a Caller whose calls may go to several addresses. Address returns that of the
// last call, or "" if there is only one.
type AddressCaller interface {
	Address() string
}

// maxCallNames and maxAddresses bound the memory of the records by name and by address.
const maxCallNames, maxAddresses = 64, 1024

// callsByName holds one client's records of calls by name. There are few names, so a list is
// faster than a map.
type callsByName struct {
	name    func() string // of the last call; nil: calls have no names
	stages  []int64       // ends of the stages, in ns from the window's begin; nil: calls have the caller's names
	most    int           // largest number of names
	open    bool          // response times differ from service times
	all     []*namedCalls
	current *namedCalls // the records for the last call's name; nil: the call has no name
}

type namedCalls struct {
	record.NamedCalls
	service, response *latency.Recorder
}

// findCurrent finds the records of the last call. at is the call's time from the window's begin, which
// decides the stage.
func (b *callsByName) findCurrent(at int64) {
	b.current = nil
	name, stage := "", 0
	switch {
	case b.stages != nil:
		stage, _ = slices.BinarySearch(b.stages, at+1) // a stage does not include its end
		stage = min(stage, len(b.stages)-1) + 1
		name = record.StageName(stage)
	case b.name != nil:
		name = b.name()
	}
	if name == "" {
		return
	}
	if i := slices.IndexFunc(b.all, func(one *namedCalls) bool { return one.Name == name }); i >= 0 {
		b.current = b.all[i]
		return
	}
	if len(b.all) == max(b.most, len(b.stages)) {
		return
	}
	b.current = &namedCalls{NamedCalls: record.NamedCalls{Name: name, Stage: stage}, service: latency.NewRecorder()}
	if b.open {
		b.current.response = latency.NewRecorder()
	}
	b.all = append(b.all, b.current)
}

// countCompleted counts a call that ended in the window.
func (b *callsByName) countCompleted(err error) {
	if b.current == nil {
		return
	}
	b.current.Completed++
	if err == nil {
		b.current.CompletedWell++
	}
}

// recordTimes stores the times of a call that began in the window.
func (b *callsByName) recordTimes(course *call, err error) {
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

func (b *callsByName) release() {
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
	service, response *latency.Histogram // response is nil if it equals the service time
}
