package rest

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

// Media types. Those for protobuf are in wide use and in no registry; the one
// for streams is wirelab's own, so that nobody takes a stream for a message.
const (
	messageType = "application/x-protobuf"
	streamType  = "application/x-protobuf-stream"
	statusType  = `application/x-protobuf; messageType="google.rpc.Status"`
)

func marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "rest: %T is not a protobuf message", message)
	}
	encoded, err := proto.Marshal(m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "rest: marshal %T: %v", message, err)
	}
	if len(encoded) > stack.MaxMessageBytes {
		return nil, errTooLarge(int64(len(encoded)))
	}
	return encoded, nil
}

// unmarshal fills the message anew. A failure gets the code: the fault is the
// client's at the server, and the server's at the client.
func unmarshal(encoded []byte, message any, fault codes.Code) error {
	m, ok := message.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "rest: %T is not a protobuf message", message)
	}
	if err := proto.Unmarshal(encoded, m); err != nil {
		return status.Errorf(fault, "rest: the body is no %s: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

func errTooLarge(sizeBytes int64) error {
	return status.Errorf(codes.ResourceExhausted, "rest: a message of %d bytes is larger than the %d that are taken", sizeBytes, stack.MaxMessageBytes)
}

// readWhole reads a body that is one message. What it allocates follows what
// arrives, not what Content-Length promises. The response writer, which may be
// nil, is told to hang up on a body that goes on beyond the limit.
func readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	encoded, err := io.ReadAll(http.MaxBytesReader(w, body, stack.MaxMessageBytes))
	var excess *http.MaxBytesError
	if errors.As(err, &excess) {
		return nil, errTooLarge(excess.Limit + 1)
	}
	return encoded, err
}

// isMedia tells whether a Content-Type header names the wanted media type.
func isMedia(contentType, want string) bool {
	if contentType == want {
		return true // as both ends of wirelab write it
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == want || want == messageType && media == "application/protobuf")
}
