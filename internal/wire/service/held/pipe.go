package held

import (
	"context"
	"net/http"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// maxMessageBytes limits a message that the server sends.
const maxMessageBytes = 16 << 20

// A pipe carries the messages of a stream from its opening to its end.
type pipe interface {
	// send sends a message. Only one goroutine sends at a time.
	send(ctx context.Context, message []byte) error
	// receive returns the next message, which is valid until the next call. Only one goroutine
	// receives. The error says why the pipe ended.
	receive() ([]byte, error)
	// finish asks the server to end the pipe; receive then returns an error. abort ends it at once.
	finish()
	abort()
}

// opened describes a pipe: the server's answer to its opening.
type opened struct {
	status  int
	header  http.Header
	release context.CancelFunc // ends the pipe's context
}

// An opener opens a pipe that lives until ctx ends. again is the last pipe of the stream, or nil.
type opener func(ctx context.Context, request *service.Request, again pipe) (pipe, opened, error)

// endOf describes why a pipe ended.
func endOf(err error) *service.EndError {
	if end, is := err.(*service.EndError); is { //nolint:errorlint // pipes return it unwrapped
		return end
	}
	class := failure.Of(err)
	end := &service.EndError{Class: class, Reason: string(class), Detail: err.Error()}
	switch class {
	case failure.Closed:
		end.Reason = "the connection was closed"
	case failure.Reset:
		end.Reason = "the connection was reset"
	}
	return end
}
