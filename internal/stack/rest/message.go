package rest

import (
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (c *codec) errTooLarge(sizeBytes int64) error {
	return status.Errorf(codes.ResourceExhausted, "rest: a message of %d bytes is larger than the limit of %d", sizeBytes, c.maxBytes)
}

// readWhole reads a body that is one message. It allocates by what arrives, not by
// Content-Length. w may be nil; otherwise net/http closes the connection of a body
// that exceeds the limit.
func (c *codec) readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	encoded, err := io.ReadAll(http.MaxBytesReader(w, body, c.maxBytes))
	var excess *http.MaxBytesError
	if errors.As(err, &excess) {
		return nil, c.errTooLarge(excess.Limit + 1)
	}
	return encoded, err
}
