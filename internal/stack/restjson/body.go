package restjson

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/stack"
)

// encode is a message's body.
func (c codec) encode(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "rest-json: %T is not a protobuf message", message)
	}
	body, err := c.marshal(m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "rest-json: encode %T: %v", message, err)
	}
	return body, checkSize(m, body)
}

// checkSize holds a message against the limit of all stacks, which is one of
// encoded protobuf. It is taken only of messages whose JSON is longer.
func checkSize(m proto.Message, body []byte) error {
	if len(body) <= stack.MaxMessageBytes {
		return nil
	}
	if size := proto.Size(m); size > stack.MaxMessageBytes {
		return errTooLarge(size)
	}
	return nil
}

// readWhole reads a body. It allocates by what arrives, not by
// Content-Length. w may be nil; otherwise net/http closes the connection of a body
// that exceeds the limit.
func readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	read, err := io.ReadAll(http.MaxBytesReader(w, body, maxBodyBytes))
	var excess *http.MaxBytesError
	if errors.As(err, &excess) {
		return nil, errTooLarge(int(excess.Limit) + 1)
	}
	return read, err
}

// isJSON reports whether a Content-Type header names JSON.
func isJSON(contentType string) bool {
	if contentType == mediaType {
		return true // as both ends of wirelab write it
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == mediaType
}
