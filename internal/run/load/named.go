package load

import (
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// A Named is a Caller whose calls are of several kinds. Name returns the name of the last call, or
// "". Calls without a name, and those of further names than mostNames, count in the whole only.
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
	current *namedCalls // of the last call; nil: it has no name
}

type namedCalls struct {
	record.NamedCalls
	service, response *latency.Recorder
}

// find finds the records of the last call.
func (b *byName) find() {
	b.current = nil
	if b.caller == nil {
		return
	}
	name := b.caller.Name()
	if name == "" {
		return
	}
	for _, one := range b.all {
		if one.Name == name {
			b.current = one
			return
		}
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

// A namedResult holds what all clients recorded under one name.
type namedResult struct {
	record.NamedCalls
	service, response *latency.Histogram // response is nil where it is the service time
}
