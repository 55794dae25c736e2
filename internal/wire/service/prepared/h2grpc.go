package prepared

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
)

// completeGRPC reads the status from the trailers. An answer without one gets the status
// that gRPC's mapping gives it (grpc/grpc, doc/http-grpc-status-mapping.md).
func (s *h2Stream) completeGRPC(trailers *answerHead) error {
	switch {
	case trailers != nil && trailers.grpcStatus != noStatus:
		s.status, s.message = trailers.grpcStatus, trailers.grpcMessage
		if codes.Code(s.status) == codes.OK && s.reader.inMessage() {
			return fmt.Errorf("the answer ended in the middle of a message: %w", io.ErrUnexpectedEOF)
		}
	case s.code != http.StatusOK:
		s.status = int(codeOfHTTP(s.code))
		s.message = fmt.Sprintf("the server answered with the HTTP status %d %s and no gRPC status", s.code, http.StatusText(s.code))
	case !s.isGRPC:
		s.status, s.message = int(codes.Unknown), "the server's answer is not gRPC: its content-type is not application/grpc"
	default:
		s.status, s.message = int(codes.Internal), "the server's answer has no grpc-status"
	}
	return nil
}

func codeOfHTTP(status int) codes.Code {
	switch status {
	case http.StatusBadRequest:
		return codes.Internal
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codes.Unavailable
	}
	return codes.Unknown
}

// A messageReader finds gRPC's messages in a body.
type messageReader struct {
	prefix [prefixBytes]byte
	have   int   // bytes of the prefix
	left   int64 // bytes of the message
}

// prefixBytes is the length of a message's prefix: a flag, and the message's length.
const prefixBytes = 5

func (r *messageReader) inMessage() bool { return r.have > 0 }

// read returns how many bytes of messages p holds, and how many messages end in it.
func (r *messageReader) read(p []byte) (bytes int64, whole int, err error) {
	for {
		if r.have < prefixBytes {
			n := copy(r.prefix[r.have:], p)
			r.have += n
			if p = p[n:]; r.have < prefixBytes {
				return bytes, whole, nil
			}
			if r.prefix[0] != 0 {
				return bytes, whole, errors.New("the answer holds a compressed message, but the request accepts none")
			}
			r.left = int64(r.prefix[1])<<24 | int64(r.prefix[2])<<16 | int64(r.prefix[3])<<8 | int64(r.prefix[4])
		}
		n := min(int64(len(p)), r.left)
		bytes += n
		r.left -= n
		if p = p[n:]; r.left > 0 {
			return bytes, whole, nil
		}
		whole++
		r.have = 0
	}
}
