package prepared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"wirelab.dev/rpc/h2"
)

// An h2Stream carries one call of one caller at a time, and is used again for the next.
// The connection's lock guards it while a call runs.
type h2Stream struct {
	stream  h2.Stream
	request *h2Request
	began   int64           // the tick at which the call began
	ctx     context.Context // the call's
	done    chan struct{}   // receives a value when the call has ended; has room for one

	// The answer, or the reason why there is none.
	err      error
	status   int // HTTP's, or gRPC's code
	message  string
	bytes    int64
	messages int

	answered bool  // the header has come
	isGRPC   bool  // its content-type is one of gRPC's
	code     int   // its HTTP status
	length   int64 // its Content-Length, or noLength
	reader   messageReader
}

// begin prepares the stream for a call.
func (s *h2Stream) begin(r *h2Request) {
	s.stream = h2.Stream{}
	s.stream.Owner, s.stream.AnyLength = s, true
	s.request = r
	s.err, s.status, s.message, s.bytes, s.messages = nil, 0, "", 0, 0
	s.answered, s.reader = false, messageReader{}
}

// onHead reads the header, or the trailers if there has been one.
func (s *h2Stream) onHead(head *answerHead) error {
	if head.bad != "" {
		return errors.New(head.bad)
	}
	if s.answered {
		return nil
	}
	s.answered, s.isGRPC, s.code, s.length = true, head.grpc, head.status, head.length
	if s.request.head || head.status == http.StatusNotModified {
		s.length = noLength // it describes a body that is not sent
	}
	return nil
}

// onData counts the bytes of a body, or of messages.
func (s *h2Stream) onData(p []byte) error {
	if s.request.grpc && s.isGRPC {
		n, whole, err := s.reader.read(p)
		s.bytes += n
		s.messages += whole
		return err
	}
	s.bytes += int64(len(p))
	if s.length != noLength && s.bytes > s.length {
		return fmt.Errorf("the answer's body is longer than its Content-Length of %d", s.length)
	}
	return nil
}

// complete reads the call's outcome from the whole answer. last is the header, the
// trailers, or nil if the answer ended with its body.
func (s *h2Stream) complete(last *answerHead) error {
	if s.request.grpc {
		return s.completeGRPC(last)
	}
	s.status = s.code
	if s.length != noLength && s.bytes < s.length {
		return fmt.Errorf("the answer ended after %d of %d bytes: %w", s.bytes, s.length, io.ErrUnexpectedEOF)
	}
	return nil
}
