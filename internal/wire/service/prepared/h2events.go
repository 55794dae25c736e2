package prepared

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/http2"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/rpc/h2"
)

var _ h2.Handler = (*h2Conn)(nil)

// OnOpen is never called: servers open no streams.
func (c *h2Conn) OnOpen() *h2.Stream { return new(h2.Stream) }

// OnHeaders implements h2.Handler.
func (c *h2Conn) OnHeaders(stream *h2.Stream, block *h2.Block, end bool) {
	s := stream.Owner.(*h2Stream)
	if block.TooLarge {
		c.breakOff(s, fmt.Errorf("a header of more than %d bytes", maxHeaderList))
		return
	}
	head := readHead(block, &c.head)
	if err := s.onHead(head); err != nil {
		c.breakOff(s, err)
	} else if end {
		c.end(s, s.complete(head))
	}
}

// OnData implements h2.Handler.
func (c *h2Conn) OnData(stream *h2.Stream, data []byte, end bool) {
	c.machine.Consume(stream, len(data))
	s := stream.Owner.(*h2Stream)
	if err := s.onData(data); err != nil {
		c.breakOff(s, err)
	} else if end {
		c.end(s, s.complete(nil))
	}
}

// breakOff ends a call whose answer is malformed.
func (c *h2Conn) breakOff(s *h2Stream, err error) {
	c.machine.Reset(&s.stream, http2.ErrCodeProtocol)
	c.end(s, malformedAnswer(err))
}

// OnReset implements h2.Handler.
func (c *h2Conn) OnReset(stream *h2.Stream, why h2.Reset) {
	s := stream.Owner.(*h2Stream)
	code := http2.StreamError{StreamID: stream.ID(), Code: why.Code}
	switch {
	case why.Reason == "":
		c.end(s, fmt.Errorf("the server reset the call: %w", code))
	case why.Unprocessed:
		c.end(s, failure.As(failure.StreamRefused, fmt.Errorf(
			"the server did not take the call, because it ends the connection%s: %w", c.goAway, code)))
	default:
		c.end(s, malformedAnswer(errors.New(why.Reason)))
	}
}

// OnDrained does nothing: nobody waits for a request to be sent.
func (c *h2Conn) OnDrained(*h2.Stream) {}

// OnGoAway keeps the server's reason for the errors of calls.
func (c *h2Conn) OnGoAway(code http2.ErrCode, debug []byte) {
	const maxQuoted = 200
	c.goAway = fmt.Sprintf(" with GOAWAY %s", code)
	if len(debug) > 0 {
		c.goAway += fmt.Sprintf(" %q", debug[:min(len(debug), maxQuoted)])
	}
}

// OnPing does nothing: the machine has answered.
func (c *h2Conn) OnPing(time.Duration) *h2.ConnError { return nil }

// OnPong does nothing: this end sends no pings.
func (c *h2Conn) OnPong([8]byte) {}

func malformedAnswer(err error) error {
	return failure.As(failure.WrongProtocol, fmt.Errorf("the server's answer is malformed: %w", err))
}
