package held

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/held/events"
)

// A responder sends an HTTP request, and returns the answer with its body open.
type responder interface {
	Respond(ctx context.Context, request *service.Request, extra ...service.Field) (*http.Response, error)
}

// eventOpener opens streams of server-sent events.
type eventOpener struct{ responder }

func (e eventOpener) openPipe(ctx context.Context, request *service.Request, again pipe) (pipe, opened, error) {
	extra := []service.Field{{Name: "Accept", Value: service.EventStream}, {Name: "Cache-Control", Value: "no-store"}}
	if last, is := again.(*eventPipe); is && last.LastID() != "" {
		extra = append(extra, service.Field{Name: "Last-Event-ID", Value: last.LastID()})
	}
	response, err := e.Respond(ctx, request, extra...)
	if err != nil {
		return nil, opened{}, err
	}
	info := opened{status: response.StatusCode, header: response.Header}
	answer := service.Answer{Status: response.StatusCode, Header: response.Header}
	switch {
	case response.StatusCode != http.StatusOK:
		err = &service.StatusError{Status: response.StatusCode}
	case !answer.HasEvents():
		err = failure.WithClass(failure.WrongProtocol, fmt.Errorf("the answer's Content-Type is %q: want %s", response.Header.Get("Content-Type"), service.EventStream))
	default:
		return &eventPipe{Reader: events.NewReader(response.Body, maxMessageBytes), body: response.Body}, info, nil
	}
	return nil, info, errors.Join(err, response.Body.Close())
}

// eventPipe is an open stream of events.
type eventPipe struct {
	*events.Reader
	body io.Closer
}

func (*eventPipe) send(context.Context, []byte) error { return errors.ErrUnsupported }

func (e *eventPipe) receive() ([]byte, error) {
	event, err := e.Next()
	if errors.Is(err, io.EOF) {
		return nil, &service.EndError{Reason: "the end of the answer", Normal: true, Class: failure.Closed}
	}
	return event.Data, err
}

func (e *eventPipe) finish() { e.abort() }
func (e *eventPipe) abort()  { _ = e.body.Close() }

// pause returns the time that the server wants a client to wait before it connects again.
func (e *eventPipe) pause() time.Duration {
	wait, _ := e.Retry()
	return wait
}
