package connectstack

import (
	"context"
	"errors"
	"io"
	"net/http"

	"wirelab.dev/internal/stack"
)

// resetting posts connect-go's requests, and keeps a call that was given up
// from looking to its server like one that had said everything: connect-go
// closes a stream's request body in good order as soon as reading the answer
// fails, and that end may leave before the reset does.
type resetting struct{ wire *stack.HTTPClient }

// Do implements connect.HTTPClient.
func (r resetting) Do(request *http.Request) (*http.Response, error) {
	if request.ContentLength < 0 {
		request.Body = resettable{ReadCloser: request.Body, ctx: request.Context()}
	}
	return r.wire.Do(request)
}

// resettable is a body of unknown length. HTTP/2 and HTTP/3 reset the stream of
// a body that fails.
type resettable struct {
	io.ReadCloser
	ctx context.Context
}

func (b resettable) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if ended := b.ctx.Err(); ended != nil && errors.Is(err, io.EOF) {
		err = ended
	}
	return n, err
}
