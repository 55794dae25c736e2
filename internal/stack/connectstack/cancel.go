package connectstack

import (
	"context"
	"errors"
	"io"
	"net/http"

	"wirelab.dev/internal/stack"
)

// cancelingClient sends connect-go's requests. When reading an answer fails, connect-go
// closes the request body normally, and that end may be sent before the stream's reset. The
// server would then take a cancelled call for a complete one. cancelingClient makes the
// body fail instead.
type cancelingClient struct{ wire *stack.HTTPClient }

// Do implements connect.HTTPClient.
func (r cancelingClient) Do(request *http.Request) (*http.Response, error) {
	if request.ContentLength < 0 {
		request.Body = cancelableBody{ReadCloser: request.Body, ctx: request.Context()}
	}
	return r.wire.Do(request)
}

// cancelableBody is a body of unknown length. HTTP/2 and HTTP/3 reset the stream of
// a body that fails.
type cancelableBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b cancelableBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if ended := b.ctx.Err(); ended != nil && errors.Is(err, io.EOF) {
		err = ended
	}
	return n, err
}
