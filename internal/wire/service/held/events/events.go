// Package events reads server-sent events, as the HTML standard defines them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
//
// It bounds the memory of an event, and knows no HTTP.
package events

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"
)

// An Event is one event with data.
type Event struct {
	Type string // "message" unless the stream names another type
	Data []byte // valid until the next event is read
}

// A Reader reads events. Only one goroutine may use it.
type Reader struct {
	from      *bufio.Reader
	limit     int // greatest length of a line, and of an event's data
	line      []byte
	data      []byte
	began     bool // the first line was read
	afterCR   bool // the last line ended with CR: a LF that follows belongs to it
	lastID    string
	id        string // the current event's id, which holds once the event is complete
	retry     time.Duration
	retryKnow bool
}

// NewReader returns a reader whose lines and events have at most limit bytes.
func NewReader(from io.Reader, limit int) *Reader {
	return &Reader{from: bufio.NewReader(from), limit: limit}
}

// LastID returns the id of the last complete event that had one, or of an earlier event.
func (r *Reader) LastID() string { return r.lastID }

// Retry returns the time that the server wants a client to wait before it connects again.
func (r *Reader) Retry() (wait time.Duration, known bool) { return r.retry, r.retryKnow }

// Next returns the next event with data. The error is io.EOF at the end of the stream: an
// incomplete event there is dropped, as the standard says.
func (r *Reader) Next() (Event, error) {
	kind, hasData := "message", false
	r.data = r.data[:0]
	for {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			r.lastID = r.id
			if hasData {
				return Event{Type: kind, Data: r.data}, nil
			}
			kind = "message"
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) { // a comment has no name
		case "data":
			if hasData {
				r.data = append(r.data, '\n')
			}
			if hasData = true; len(r.data)+len(value) > r.limit {
				return Event{}, r.tooLong("an event")
			}
			r.data = append(r.data, value...)
		case "event":
			if kind = string(value); kind == "" {
				kind = "message"
			}
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				r.id = string(value)
			}
		case "retry":
			if milliseconds, err := strconv.ParseUint(string(value), 10, 31); err == nil && value[0] != '+' {
				r.retry, r.retryKnow = time.Duration(milliseconds)*time.Millisecond, true
			}
		}
	}
}

// readLine returns the next line without its end: CR, LF, or both. It returns a line as soon as CR
// arrives, because a LF may never follow.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		c, err := r.from.ReadByte()
		if err != nil {
			return nil, err
		}
		skip := c == '\n' && r.afterCR
		r.afterCR = c == '\r'
		switch {
		case skip:
			continue
		case c == '\r' || c == '\n':
			line := r.line
			if !r.began {
				r.began, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			return line, nil
		case len(r.line) == r.limit:
			return nil, r.tooLong("a line")
		}
		r.line = append(r.line, c)
	}
}

func (r *Reader) tooLong(what string) error {
	return fmt.Errorf("%s of the event stream has more than %d bytes, which is the limit", what, r.limit)
}
