package rest

import (
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (c *codec) errTooLarge(sizeBytes int64) error {
	return status.Errorf(codes.ResourceExhausted, "rest: a message of %d bytes is larger than the %d that are taken", sizeBytes, c.most)
}

// readWhole reads a body that is one message. What it allocates follows what
// arrives, not what Content-Length promises. The response writer, which may be
// nil, is told to hang up on a body that goes on beyond the limit.
func (c *codec) readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	encoded, err := io.ReadAll(http.MaxBytesReader(w, body, c.most))
	var excess *http.MaxBytesError
	if errors.As(err, &excess) {
		return nil, c.errTooLarge(excess.Limit + 1)
	}
	return encoded, err
}
