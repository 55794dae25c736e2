package held

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/service"
)

// A setting holds what all streams of a client share.
type setting struct {
	*service.Definition
	*fields
	open opener
	life context.Context // ends with the client
}

func newSetting(plan service.Plan) (*setting, error) {
	f, err := parseFields(plan.Definition)
	return &setting{Definition: plan.Definition, fields: f}, err
}

// A stream is held by one or more callers, and opened again when it ends.
type stream struct {
	*setting
	request service.Request // opens the stream, also again
	sending sync.Mutex      // held by the caller that sends: messages go out in the order of waiting

	mu       sync.Mutex
	pipe     pipe // nil while the stream is closed
	opened   opened
	why      *service.EndError // why wirelab itself ends the pipe; nil unless it does
	closing  bool              // the client is being closed
	begun    bool              // a caller has waited for a message
	waiting  []*caller         // in the order of their messages
	wanted   chan struct{}     // tells the reader that a caller waits; it has one place
	changed  chan struct{}     // closed when the stream is opened, or an attempt has failed
	attempts int               // attempts to open the stream again that have failed
	failed   error             // the last attempt's error
	last     error             // why the last pipe ended
	owed     error             // an end that fails the next call, since no call waited then

	lastAt, endedAt int64 // instants of the last message or opening, and of the last end
	sum             record.Streams
	numbers         sequence
}

func newStream(set *setting) *stream {
	return &stream{setting: set, wanted: make(chan struct{}, 1), changed: make(chan struct{})}
}

// first opens the stream for the first time. It copies the request, which the caller may overwrite.
func (s *stream) first(ctx context.Context, request *service.Request) (pipe, error) {
	s.request = *request
	s.request.Header, s.request.Body = slices.Clone(request.Header), slices.Clone(request.Body)
	s.request.Messages = nil
	for _, m := range request.Messages {
		s.request.Messages = append(s.request.Messages, slices.Clone(m))
	}
	p, info, err := s.openPipe(ctx, nil)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPipe(p, info)
	return p, nil
}

// openPipe opens a pipe, which lives as long as the client. The opening ends with ctx, or after the
// definition's timeout.
func (s *stream) openPipe(ctx context.Context, again pipe) (pipe, opened, error) {
	life, cancel := context.WithCancel(s.life)
	limit := s.Timeout
	if limit <= 0 {
		limit = maxOpeningTime
	}
	timer := time.AfterFunc(limit, cancel)
	given := context.AfterFunc(ctx, cancel)
	p, info, err := s.open(life, &s.request, again)
	inTime := timer.Stop()
	isGiven := !given()
	if isGiven && ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	} else if isGiven || !inTime {
		text := fmt.Sprintf("the stream was not open within %v", limit)
		if s.Wire == service.GRPC {
			text += ": the server may allow fewer streams per connection: spread them with --conn pool:N"
		}
		err = failure.WithClass(failure.Deadline, errors.New(text))
	}
	if err != nil {
		cancel()
		if p != nil {
			p.abort()
		}
		return nil, info, err
	}
	context.AfterFunc(life, p.abort) // runs at the end of the pipe, or of the client
	info.release = cancel
	return p, info, nil
}

// maxOpeningTime bounds the time in which a stream opens, if the definition has no timeout.
const maxOpeningTime = 20 * time.Second

// setPipe makes a pipe the stream's own. The caller holds mu.
func (s *stream) setPipe(p pipe, info opened) {
	s.pipe, s.opened, s.lastAt, s.why = p, info, clock.Now(), nil
	s.numbers.restart()
	s.announce()
}

// announce wakes the callers that wait for the stream to open. The caller holds mu.
func (s *stream) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// run reads the pipe, and opens the stream again after its end, until the client is closed.
func (s *stream) run(p pipe) {
	wait := time.Duration(0)
	for p != nil {
		since, before := clock.Now(), s.received()
		end := s.readAll(p)
		if !s.closed(end) {
			return
		}
		if s.received() > before || clock.Now()-since > int64(maxReopenWait) {
			wait = 0
		} else {
			wait = nextWait(wait)
		}
		p = s.reopen(p, wait)
	}
}

func (s *stream) received() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum.Received
}

// These limits bound the wait before the next attempt to open a stream that brought nothing.
const (
	minReopenWait = 10 * time.Millisecond
	maxReopenWait = time.Second
)

func nextWait(wait time.Duration) time.Duration {
	return min(max(2*wait, minReopenWait), maxReopenWait)
}

// readAll gives each message to a caller, and returns why the pipe ended.
func (s *stream) readAll(p pipe) *service.EndError {
	reader := s.newReader()
	for {
		message, err := p.receive()
		if err != nil {
			return endOf(err)
		}
		s.take(message, reader.read(message))
	}
}

// take counts a message, and gives it to the caller that waits for it.
func (s *stream) take(message []byte, found messageFields) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	gap := now - s.lastAt
	s.lastAt = now
	s.sum.Received++
	if found.unusable {
		s.sum.Unread++
	}
	if found.number != nil && !found.unusable {
		s.numbers.observe(*found.number)
	}
	switch s.Holding.Exchange {
	case service.Send:
		return
	case service.Receive:
		for s.begun && len(s.waiting) == 0 && !s.closing {
			s.mu.Unlock()
			select {
			case <-s.wanted:
			case <-s.life.Done():
			}
			s.mu.Lock()
			if s.life.Err() != nil {
				return
			}
		}
		if len(s.waiting) == 0 { // before the load: nobody has waited yet
			return
		}
	}
	i := 0
	if s.match != nil {
		i = slices.IndexFunc(s.waiting, func(c *caller) bool { return c.key == found.key })
	}
	if i < 0 || i >= len(s.waiting) {
		s.sum.Unmatched++
		return
	}
	c := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	a := c.answer
	a.Status, a.Header, a.Messages, a.Bytes = s.opened.status, s.opened.header, 1, int64(len(message))
	a.Body = append(a.Body[:0], message...)
	switch {
	case s.sentAt != nil && found.sinceNS != nil && !found.unusable:
		a.Times = append(a.Times, time.Duration(*found.sinceNS))
	case s.sentAt == nil && s.Holding.Exchange == service.Receive:
		a.Times = append(a.Times, time.Duration(gap))
	}
	c.deliver(nil)
}

// closed notes the end of the pipe, and fails the callers that wait. It reports whether the stream
// must be opened again.
func (s *stream) closed(end *service.EndError) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		end = s.why
	}
	s.opened.release()
	s.pipe, s.endedAt, s.last = nil, clock.Now(), end
	if s.closing || s.life.Err() != nil {
		s.closing = true
		s.failAll(end)
		return false
	}
	s.sum.Ends = record.PlusErrors(s.sum.Ends, []record.ErrorCount{{Class: string(end.Class), Code: end.Reason, Count: 1, Example: end.Error()}})
	if s.Holding.Exchange == service.Receive && !end.Normal && s.begun && len(s.waiting) == 0 {
		s.owed = end
	}
	if s.Holding.Exchange != service.Receive || !end.Normal {
		s.failAll(end)
		return true
	}
	for _, c := range s.waiting { // they go on waiting, but only once without a message
		if c.outlived {
			s.failAll(end)
			break
		}
		c.outlived = true
	}
	return true
}

// failAll ends the exchanges of all callers that wait. The caller holds mu.
func (s *stream) failAll(err error) {
	for _, c := range s.waiting {
		c.deliver(err)
	}
	s.waiting = nil
}

// reopen opens the stream again. It returns nil if the client is closed meanwhile.
func (s *stream) reopen(last pipe, wait time.Duration) pipe {
	if pausing, is := last.(interface{ pause() time.Duration }); is {
		wait = max(wait, min(pausing.pause(), maxPause))
	}
	for {
		select {
		case <-time.After(wait):
		case <-s.life.Done():
		}
		p, info, err := s.openPipe(s.life, last)
		s.mu.Lock()
		switch {
		case s.closing || s.life.Err() != nil:
			s.closing = true
			s.failAll(&service.EndError{Reason: "the load ended", Class: failure.Cancelled})
			s.announce()
			s.mu.Unlock()
			if err == nil {
				info.release()
			}
			return nil
		case err == nil:
			s.sum.Reopened++
			s.sum.ClosedNS += clock.Now() - s.endedAt
			s.setPipe(p, info)
			s.mu.Unlock()
			return p
		}
		s.sum.FailedOpenings++
		s.attempts++
		s.failed = fmt.Errorf("open the stream again: %w", err)
		s.failAll(s.failed)
		s.announce()
		s.mu.Unlock()
		wait = nextWait(wait)
	}
}

// maxPause bounds the wait that a server of events asks for.
const maxPause = 30 * time.Second

// finish ends the stream in the way of its protocol.
func (s *stream) finish() {
	s.mu.Lock()
	s.closing = true
	p := s.pipe
	select {
	case s.wanted <- struct{}{}:
	default:
	}
	s.mu.Unlock()
	if p != nil {
		p.finish()
	}
}

// endPipe ends the pipe for a reason of the client's own. The caller holds mu.
func (s *stream) endPipe(why *service.EndError) {
	if p := s.pipe; p != nil && s.why == nil {
		s.why = why
		go p.abort() // ends soon; aborting may take a lock that a sender holds
	}
}

// counts returns the stream's counts so far. A stream that is closed now counts as closed until now.
func (s *stream) counts() record.Streams {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.sum
	sum.Held, sum.Ends = 1, slices.Clone(sum.Ends)
	if s.pipe == nil && s.endedAt > 0 {
		sum.ClosedNS += clock.Now() - s.endedAt
	}
	if s.sequence != nil {
		sum.Sequence = new(s.numbers.Sequence)
	}
	return sum
}
