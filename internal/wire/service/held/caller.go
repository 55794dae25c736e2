package held

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// A caller makes one exchange after another on a stream.
type caller struct {
	stream *stream
	done   chan error // gets the result of the exchange; it has one place
	timer  *time.Timer
	next   int // number of the next message, if the request has several
	reader *messageReader

	// The stream's mu guards the following fields.

	answer   *service.Answer
	key      string
	outlived bool   // the exchange has outlived the end of a pipe
	turn     uint64 // number of the exchange
	pending  bool   // the exchange has no result yet
	stage    stage
}

// A stage says how far an exchange's message has come.
type stage int

const (
	unsent stage = iota
	sending
	sent
)

func newCaller(s *stream) *caller {
	c := &caller{stream: s, done: make(chan error, 1), reader: s.newReader()}
	if s.Timeout > 0 {
		c.timer = time.AfterFunc(time.Hour, c.expire)
		c.timer.Stop()
	}
	return c
}

// deliver ends the exchange. The caller of deliver holds mu.
func (c *caller) deliver(err error) {
	if c.pending {
		c.pending = false
		c.done <- err
	}
}

// exchange makes one exchange.
func (c *caller) exchange(ctx context.Context, request *service.Request, answer *service.Answer) error {
	kind := c.stream.Holding.Exchange
	c.begin(answer)
	defer c.end()
	if kind == service.Receive {
		c.await()
	} else {
		message, err := c.messageOf(request)
		if err != nil {
			return err
		}
		if isDone, err := c.send(ctx, message); isDone || err != nil {
			return err
		}
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		c.giveUp(c.turn, failure.WithClass(failure.Cancelled, errors.New("the load ended before the answer came")))
		err := <-c.done
		if err != nil && kind == service.Receive {
			return service.ErrUnfinished
		}
		return err
	}
}

func (c *caller) begin(answer *service.Answer) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	c.turn++
	c.answer, c.pending, c.outlived, c.stage = answer, true, false, unsent
	if c.timer != nil {
		c.timer.Reset(s.Timeout)
	}
}

// end makes sure that no result of the exchange arrives later.
func (c *caller) end() {
	if c.timer != nil {
		c.timer.Stop()
	}
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	c.pending = false
	c.leave()
	if len(c.done) > 0 { // it holds a result that came after the caller had failed
		c.done = make(chan error, 1)
	}
}

// leave takes the caller from the list of those that wait. The caller of leave holds mu.
func (c *caller) leave() {
	if i := slices.Index(c.stream.waiting, c); i >= 0 {
		c.stream.waiting = slices.Delete(c.stream.waiting, i, i+1)
	}
}

// expire ends the exchange at the end of its time.
func (c *caller) expire() {
	s := c.stream
	s.mu.Lock()
	turn, what := c.turn, "answer"
	s.mu.Unlock()
	if s.Holding.Exchange == service.Receive {
		what = "message"
	}
	c.giveUp(turn, failure.WithClass(failure.Deadline, fmt.Errorf("no %s came within %v", what, s.Timeout)))
}

// giveUp ends an exchange without a result. Without --match, a later answer would be taken for the
// answer to the next message, so the pipe ends too. A sender that waits for the network also needs
// that.
func (c *caller) giveUp(turn uint64, err error) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.pending || c.turn != turn {
		return
	}
	c.leave()
	if c.stage == sending || c.stage == sent && s.match == nil {
		s.endPipe(&service.EndError{Reason: "no answer came in time", Class: failure.Of(err)})
	}
	c.deliver(err)
}

// messageOf returns the next message of a request.
func (c *caller) messageOf(request *service.Request) ([]byte, error) {
	message := request.Body
	if c.stream.Wire == service.GRPC {
		if len(request.Messages) == 0 {
			return nil, errors.New("the request has no message: give one with -d")
		}
		message = request.Messages[c.next%len(request.Messages)]
		c.next++
	}
	if c.stream.match == nil {
		return message, nil
	}
	key, err := c.reader.keyOfSent(message)
	c.key = key // only this caller's exchange is looked up by it, and it is not in the list yet
	return message, err
}

// await makes the caller wait for the stream's next message.
func (c *caller) await() {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		c.deliver(errClosed)
		return
	case s.owed != nil:
		c.deliver(s.owed)
		s.owed = nil
		return
	}
	s.begun = true
	s.waiting = append(s.waiting, c)
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

var errClosed = failure.WithClass(failure.Cancelled, errors.New("the client is closed"))

// send sends a message once the stream is open. isDone says that nothing else is awaited; otherwise
// the result follows.
func (c *caller) send(ctx context.Context, message []byte) (isDone bool, err error) {
	s := c.stream
	s.sending.Lock()
	defer s.sending.Unlock()
	p, err := c.awaitPipe(ctx)
	if p == nil {
		return true, err
	}
	answered := s.Holding.Exchange == service.Answers
	err = p.send(ctx, message)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.stage = sent
	if err == nil {
		s.sum.Sent++
		c.answer.Status = s.opened.status
		return !answered, nil
	}
	switch { // whoever reads the pipe knows better why it ended
	case s.pipe != p:
		c.deliver(cmp.Or[error](s.last, err))
	case !answered:
		s.waiting = append(s.waiting, c)
	}
	return false, nil
}

// awaitPipe waits until the stream is open, and makes the caller wait for an answer on it. It
// returns no pipe if the exchange has ended before, perhaps because an attempt to open it failed.
func (c *caller) awaitPipe(ctx context.Context) (pipe, error) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	for failed := s.attempts; ; {
		switch {
		case s.closing:
			return nil, errClosed
		case !c.pending:
			return nil, <-c.done
		case s.attempts > failed:
			return nil, s.failed
		case s.pipe != nil && s.why == nil:
			c.stage = sending
			if s.Holding.Exchange == service.Answers {
				s.waiting = append(s.waiting, c)
			}
			return s.pipe, nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case err := <-c.done:
			s.mu.Lock()
			return nil, err
		case <-ctx.Done():
			s.mu.Lock()
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
	}
}
