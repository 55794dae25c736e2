package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/failure"
)

// Stream is one call at a time. The caller makes it once and uses it again when it has
// ended; from Start until then it belongs to the Machine.
type Stream struct {
	// Of the caller, who may read them under the connection's lock.
	Began   int64
	Context context.Context // of the running call
	Done    chan struct{}   // gets a value when the call has ended; has room for one

	// The answer, or why there is none.
	Err      error
	Status   int // of HTTP, or the code of gRPC
	Message  string
	Bytes    int64
	Messages int

	request *Request
	id      uint32 // 0: not sent
	state   streamState
	unsent  []byte // of the body
	window  int64  // what the peer accepts of it
	queued  bool   // among the senders

	received int64 // of the stream's window, since its last update
	declared int64 // Content-Length; -1: none
	interim  int
	header   fields // of the answer
	message  messageReader
}

type streamState uint8

const (
	ended streamState = iota
	waiting
	running   // sent, no answer yet
	answering // its header has come
)

// begin resets what the call before has left.
func (s *Stream) begin(r *Request) {
	s.Err, s.Status, s.Message, s.Bytes, s.Messages = nil, 0, "", 0, 0
	s.request, s.id, s.unsent, s.queued = r, 0, nil, false
	s.received, s.declared, s.interim, s.message = 0, -1, 0, messageReader{}
}

// onData counts the bytes of a body, or of messages.
func (s *Stream) onData(kind Kind, p []byte) error {
	if kind == GRPC && s.header.grpc {
		n, whole, err := s.message.read(p)
		s.Bytes += n
		s.Messages += whole
		return err
	}
	s.Bytes += int64(len(p))
	if s.declared >= 0 && s.Bytes > s.declared {
		return fmt.Errorf("the answer's body is longer than its Content-Length of %d", s.declared)
	}
	return nil
}

// complete judges the whole answer. trailers may be the header itself.
func (s *Stream) complete(kind Kind, trailers *fields) error {
	if kind == GRPC {
		return s.completeGRPC(trailers)
	}
	s.Status = s.header.status
	if s.declared >= 0 && s.Bytes < s.declared && !s.request.Head && s.Status != http.StatusNotModified {
		return fmt.Errorf("the answer ended after %d of %d bytes: %w", s.Bytes, s.declared, io.ErrUnexpectedEOF)
	}
	return nil
}

// completeGRPC takes the status from the trailers. Answers without one get that which the
// mapping of gRPC gives them (grpc/grpc, doc/http-grpc-status-mapping.md).
func (s *Stream) completeGRPC(trailers *fields) error {
	switch {
	case trailers != nil && trailers.grpcStatus >= 0:
		s.Status, s.Message = trailers.grpcStatus, trailers.message
		if codes.Code(s.Status) == codes.OK && s.message.inMessage() {
			return fmt.Errorf("the answer ended within a message: %w", io.ErrUnexpectedEOF)
		}
	case s.header.status != http.StatusOK:
		s.Status = int(ofHTTP(s.header.status))
		s.Message = fmt.Sprintf("the server answered with the HTTP status %d %s and none of gRPC", s.header.status, http.StatusText(s.header.status))
	case !s.header.grpc:
		s.Status, s.Message = int(codes.Unknown), "the server's answer is not of gRPC: its content-type is not application/grpc"
	default:
		s.Status, s.Message = int(codes.Internal), "the server's answer has no grpc-status"
	}
	return nil
}

func ofHTTP(status int) codes.Code {
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

// messageReader finds the messages of gRPC in a body.
type messageReader struct {
	prefix [prefixBytes]byte
	have   int   // bytes of the prefix
	left   int64 // bytes of the message
}

// prefixBytes is the size of what goes before a message: a flag, and the length.
const prefixBytes = 5

func (r *messageReader) inMessage() bool { return r.have > 0 }

// read returns how many bytes of messages lie in p, and how many messages end in it.
func (r *messageReader) read(p []byte) (bytes int64, whole int, err error) {
	for {
		if r.have < prefixBytes {
			n := copy(r.prefix[r.have:], p)
			r.have += n
			if p = p[n:]; r.have < prefixBytes {
				return bytes, whole, nil
			}
			if r.prefix[0] != 0 {
				return bytes, whole, errors.New("the answer has a compressed message, and none was asked for")
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

// ErrNotSent is the error of a call that a connection which takes no more calls has not
// sent: another one may carry it.
var ErrNotSent = errors.New("the connection takes no further call")

// errRefused is the error of calls that a GOAWAY says are not processed.
func errRefused(id uint32, why string) error {
	return failure.As(failure.StreamRefused, fmt.Errorf("the server has not taken the call, because it ends the connection%s: %w",
		why, http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}))
}

// errReset is the error of calls that the server broke off.
func errReset(id uint32, code http2.ErrCode) error {
	return fmt.Errorf("the server reset the call: %w", http2.StreamError{StreamID: id, Code: code})
}
