package prepared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// An h2Stream carries one caller's calls, one after another. The connection's lock guards it.
type h2Stream struct {
	stream  h2.Stream
	request *h2Request
	began   int64           // the tick at which the call began
	ctx     context.Context // context of the call
	done    chan struct{}   // receives a value when the call has ended; its buffer has room for one

	// These fields hold the answer, or the error if there is no answer.
	err      error
	status   int // HTTP status, or gRPC code
	message  string
	bytes    int64
	messages int

	answered bool  // the header has arrived
	isGRPC   bool  // the content-type is gRPC's
	code     int   // HTTP status
	length   int64 // Content-Length, or noLength
	reader   messageReader
}

func (s *h2Stream) begin(r *h2Request) {
	s.stream = h2.Stream{}
	s.stream.Owner, s.stream.AnyLength = s, true
	s.request = r
	s.err, s.status, s.message, s.bytes, s.messages = nil, 0, "", 0, 0
	s.answered, s.reader = false, messageReader{}
}

// onHead reads the answer's header, or its trailers if the header has come before.
func (s *h2Stream) onHead(head *answerHead) error {
	if head.bad != "" {
		return errors.New(head.bad)
	}
	if s.answered {
		return nil
	}
	s.answered, s.isGRPC, s.code, s.length = true, head.grpc, head.status, head.length
	if s.request.head || head.status == http.StatusNotModified {
		s.length = noLength // for HEAD, the length describes a body that is not sent
	}
	return nil
}

// onData counts the bytes of a body or of gRPC messages.
func (s *h2Stream) onData(p []byte) error {
	if s.request.grpc && s.isGRPC {
		n, whole, err := s.reader.countMessages(p)
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

// complete sets the call's result. last is the last block of fields: the header or the trailers.
// last is nil if the body came last.
func (s *h2Stream) complete(last *answerHead) error {
	if s.request.grpc {
		return s.completeGRPC(last)
	}
	s.status = s.code
	if s.length != noLength && s.bytes < s.length {
		return fmt.Errorf("the answer's body ended after %d of %d bytes: %w", s.bytes, s.length, io.ErrUnexpectedEOF)
	}
	return nil
}

// completeGRPC reads the gRPC status from the trailers. If there is none, it computes the status
// from the HTTP status (grpc/grpc, doc/http-grpc-status-mapping.md).
func (s *h2Stream) completeGRPC(trailers *answerHead) error {
	switch {
	case trailers != nil && trailers.grpcStatus != noStatus:
		s.status, s.message = trailers.grpcStatus, trailers.grpcMessage
		if codes.Code(s.status) == codes.OK && s.reader.inMessage() {
			return fmt.Errorf("the answer ended in the middle of a message: %w", io.ErrUnexpectedEOF)
		}
	case s.code != http.StatusOK:
		s.status = int(wire.CodeOfHTTP(s.code))
		s.message = fmt.Sprintf("the server answered with the HTTP status %d %s and no gRPC status", s.code, http.StatusText(s.code))
	case !s.isGRPC:
		s.status, s.message = int(codes.Unknown), "the server's answer is not gRPC: its content-type is not application/grpc"
	default:
		s.status, s.message = int(codes.Internal), "the server's answer has no grpc-status"
	}
	return nil
}

type messageReader struct {
	prefix [prefixBytes]byte
	have   int   // number of prefix bytes received so far
	left   int64 // number of message bytes still to come
}

// prefixBytes is the length of a message's prefix, which holds a flag and the message's length.
const prefixBytes = 5

func (r *messageReader) inMessage() bool { return r.have > 0 }

// countMessages returns the number of message bytes in p, and of messages that end in p.
func (r *messageReader) countMessages(p []byte) (bytes int64, whole int, err error) {
	for {
		if r.have < prefixBytes {
			n := copy(r.prefix[r.have:], p)
			r.have += n
			if p = p[n:]; r.have < prefixBytes {
				return bytes, whole, nil
			}
			flags, length := wire.ParsePrefix(r.prefix[:])
			if flags != 0 {
				return bytes, whole, errors.New("the answer holds a compressed message, but the request accepts none")
			}
			r.left = int64(length)
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

// An answerHead holds those fields of a header or of trailers that a call needs.
type answerHead struct {
	status      int   // 0 means no status
	length      int64 // Content-Length, or noLength
	grpcStatus  int   // the status code, or noStatus
	grpcMessage string
	grpc        bool   // the content-type is gRPC's
	bad         string // description of a malformed field; empty means none
}

const (
	noLength = -1
	noStatus = -1
)

// readHead returns the fields of a block. Do not change the result: it may belong to the block.
func readHead(block *h2.Block, scratch *answerHead) *answerHead {
	fixed := &emptyHead
	if block.Fixed != nil {
		fixed = readFixedHead(block.Fixed)
	}
	if len(block.Rest) == 0 {
		return fixed
	}
	*scratch = *fixed
	for _, f := range block.Rest {
		scratch.add(f)
	}
	return scratch
}

var emptyHead = answerHead{length: noLength, grpcStatus: noStatus}

func readFixedHead(set *h2.FieldSet) *answerHead {
	if head, ok := set.Memo.(*answerHead); ok {
		return head
	}
	head := new(answerHead)
	*head = emptyHead
	for _, f := range set.Fields {
		head.add(f)
	}
	set.Memo = head
	return head
}

func (h *answerHead) add(f hpack.HeaderField) {
	switch f.Name {
	case ":status":
		status, err := strconv.Atoi(f.Value)
		if err != nil || len(f.Value) != 3 || status < 100 {
			h.bad = fmt.Sprintf("the status %.20q", f.Value)
			return
		}
		h.status = status
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil {
			h.bad = fmt.Sprintf("the content-length %.20q", f.Value)
			return
		}
		h.length = int64(n)
	case "content-type":
		_, h.grpc = wire.ContentSubtype(f.Value)
	case "grpc-status":
		code, err := strconv.ParseUint(f.Value, 10, 31)
		if err != nil {
			h.bad = fmt.Sprintf("the grpc-status %.20q", f.Value)
			return
		}
		h.grpcStatus = int(code)
	case "grpc-message":
		h.grpcMessage = wire.DecodeStatusMessage(f.Value)
	}
}
