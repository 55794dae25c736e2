package connectstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// envelope carries a unary message of any type through connect-go, which needs one concrete type
// because it allocates received messages. It holds an outgoing message or an incoming message's
// bytes.
type envelope struct {
	message any
	raw     []byte
	form    codec // the codec that encoded raw
}

func (e *envelope) open(message any) error { return e.form.decode(e.raw, message) }

// codec extends one of connect-go's codecs to envelopes. It copies incoming unary messages,
// because connect-go reuses its buffers.
type codec int

// These are the codecs. wirelab's clients use the first codec; the second is for curl.
const (
	binary codec = iota
	json
)

var _ connect.Codec = binary

// Name returns the name of connect-go's codec, so that the media types stay the same.
func (c codec) Name() string { return [...]string{"proto", "json"}[c] }

func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend encodes a message into connect-go's buffer.
func (c codec) MarshalAppend(to []byte, message any) ([]byte, error) {
	if e, wrapped := message.(*envelope); wrapped {
		message = e.message
	}
	m, err := stack.ProtoMessage(name, message)
	switch {
	case err != nil:
		return nil, err
	case c == json:
		return protojson.MarshalOptions{}.MarshalAppend(to, m)
	default:
		return proto.MarshalOptions{}.MarshalAppend(to, m)
	}
}

func (c codec) Unmarshal(data []byte, message any) error {
	if e, wrapped := message.(*envelope); wrapped {
		e.raw, e.form = bytes.Clone(data), c
		return nil
	}
	return c.decode(data, message)
}

func (c codec) decode(data []byte, message any) error {
	m, err := stack.ProtoMessage(name, message)
	switch {
	case err != nil:
		return err
	case c == json:
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
	default:
		return proto.Unmarshal(data, m)
	}
}

// toConnect converts a handler's error into connect-go's. Connect and gRPC use the same code
// numbers.
func toConnect(err error) error {
	if err == nil {
		return nil
	}
	failed := rpccall.StatusOf(err)
	answer := connect.NewError(connect.Code(failed.Code()), errors.New(failed.Message()))
	for _, detail := range failed.Proto().GetDetails() {
		if packed, err := connect.NewErrorDetail(detail); err == nil {
			answer.AddDetail(packed)
		}
	}
	return answer
}

func toStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	failed, is := errors.AsType[*connect.Error](err)
	switch {
	case !is:
		return stack.FailContext(ctx, err)
	case connect.IsWireError(err):
		return toCallError(failed)
	case ctx.Err() != nil || failed.Code() == connect.CodeDeadlineExceeded:
		return stack.FailContext(ctx, err)
	case isConnectionLost(failed):
		return stack.Fail(codes.Unavailable, err)
	default:
		return stack.WithCause(status.Error(codes.Code(failed.Code()), failed.Message()), err)
	}
}

func toCallError(failed *connect.Error) error {
	said := &spb.Status{Code: int32(failed.Code()), Message: failed.Message()}
	for _, detail := range failed.Details() {
		said.Details = append(said.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
	}
	return stack.WithCause(status.ErrorProto(said), failed)
}

// isConnectionLost reports whether an error comes from a broken connection. connect-go gives a
// truncated answer the code of an invalid answer. It gives a failed write the code Canceled, which
// is correct only on a server.
func isConnectionLost(failed *connect.Error) bool {
	cause := failed.Unwrap()
	return errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, syscall.EPIPE) || errors.Is(cause, syscall.ECONNRESET)
}
