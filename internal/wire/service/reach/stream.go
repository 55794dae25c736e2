package reach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/held"
)

// tryStream opens one stream and makes one exchange on it. A stream on which the server sends
// nothing yet may be loaded; a message without an answer means that the load would fail.
func (f *FirstCall) tryStream(ctx context.Context, found *SlowProbe) error {
	d := f.Definition
	client, err := held.Open(ctx, service.Plan{Definition: d, Connections: 1, Callers: 1, Keep: true, Varied: d.Feed != nil, Dialer: &conn.Dialer{}})
	if err != nil {
		return DescribeFailure(d, err, found.Result(), f.Limit)
	}
	defer client.Close()
	var answer service.Answer
	begin := time.Now()
	if err := client.(service.Holder).Hold(ctx, 0, f.Request, &answer); err != nil {
		return f.describeOpening(err, found)
	}
	f.printNote("first stream: open after %v", time.Since(begin).Round(10*time.Microsecond))
	begin = time.Now()
	err = client.Call(ctx, f.Request, &answer)
	took := time.Since(begin)
	switch {
	case errors.Is(err, service.ErrUnfinished), err != nil && d.Holding.Exchange == service.Receive && failure.Of(err) == failure.Deadline:
		f.printNote("first stream: no message came within %v; the load waits for messages all the same", f.Limit)
		return nil
	case err != nil && (ctx.Err() != nil || failure.Of(err) == failure.Deadline): // whichever limit ends first
		return fmt.Errorf("%s: the stream opened, but no answer to the first message came within %v: check the message, wait longer with --timeout, or add --exchange receive or --exchange send if messages have no answers", DisplayName(d), f.Limit)
	case err != nil:
		return fmt.Errorf("%s: the stream opened, but the first exchange failed: %s: check the message and the server's log", DisplayName(d), FirstLine(err))
	case d.Holding.Exchange == service.Send:
		return nil
	}
	f.printNote("first message: %d bytes after %v", answer.Bytes, took.Round(10*time.Microsecond))
	return f.checkExpectations(answer.ForConditions(d.Wire.Kind(), took))
}

// describeOpening says why the first stream did not open.
func (f *FirstCall) describeOpening(err error, found *SlowProbe) error {
	d := f.Definition
	if refused, is := errors.AsType[*service.StatusError](err); is {
		return fmt.Errorf("%s: the server answered %s: want 200 OK with events: name the path of an event stream", DisplayName(d), refused.Describe())
	}
	if class := failure.Of(err); class == failure.Application || class == failure.WrongProtocol {
		return fmt.Errorf("%s: %s", DisplayName(d), FirstLine(err))
	}
	return DescribeFailure(d, err, found.Result(), f.Limit)
}
