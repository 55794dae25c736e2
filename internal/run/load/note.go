package load

import (
	"wirelab.dev/internal/data/record"
)

// fail counts a failed call. It may allocate: the generator's cost matters only in
// trials without failures.
func (c *client) fail(err error) {
	class := c.classify(err)
	if c.failures[class] == nil {
		if c.failures == nil {
			c.failures = map[record.ErrorCount]*record.ErrorCount{}
		}
		first := class
		first.Example = err.Error()
		c.failures[class] = &first
	}
	c.failures[class].Count++
}

func (c *client) countedFailures() []record.ErrorCount {
	counted := make([]record.ErrorCount, 0, len(c.failures))
	for _, f := range c.failures {
		counted = append(counted, *f)
	}
	return counted
}

// countStatus counts the status of a call that began in the window.
func (c *client) countStatus() {
	if c.answered == nil {
		return
	}
	if status, is := c.answered.Status(); is {
		c.statuses.count(status)
	}
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

// recordMessages records the messages of a call that began in the window.
func (c *client) recordMessages() {
	if c.streamer == nil {
		return
	}
	for _, took := range c.streamer.MessageTimes() {
		c.messages.Record(int64(took))
	}
}
