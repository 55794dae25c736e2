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

// envelope carries a unary message through connect-go, which allocates received messages and so
// needs one concrete type. It holds an outgoing message, or the bytes of an incoming one.
type envelope struct {
	message any
	raw     []byte
	form    codec // the codec of raw
}

func (e *envelope) open(message any) error { return e.form.decode(e.raw, message) }

// codec is one of connect-go's codecs that also handles envelopes. It copies an incoming unary
// message once more, because connect-go reuses the buffer that it decodes from.
type codec int

// The codecs. wirelab's clients speak the first; curl prefers the second.
const (
	binary codec = iota
	json
)

var _ connect.Codec = binary

// Name returns the name of connect-go's own codec, so that the media types are the same.
func (c codec) Name() string { return [...]string{"proto", "json"}[c] }

func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend marshals into connect-go's own buffer.
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

// toConnect turns a handler's error into connect-go's. Connect's codes are gRPC's numbers.
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
		return answered(failed)
	case ctx.Err() != nil || failed.Code() == connect.CodeDeadlineExceeded:
		return stack.FailContext(ctx, err)
	case lostPeer(failed):
		return stack.Fail(codes.Unavailable, err)
	default:
		return stack.WithCause(status.Error(codes.Code(failed.Code()), failed.Message()), err)
	}
}

func answered(failed *connect.Error) error {
	said := &spb.Status{Code: int32(failed.Code()), Message: failed.Message()}
	for _, detail := range failed.Details() {
		said.Details = append(said.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
	}
	return stack.WithCause(status.ErrorProto(said), failed)
}

// lostPeer reports whether an error came from a broken connection. connect-go reports a truncated
// answer as invalid, and a failed write as cancelled; the latter is right only on a server.
func lostPeer(failed *connect.Error) bool {
	cause := failed.Unwrap()
	return errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, syscall.EPIPE) || errors.Is(cause, syscall.ECONNRESET)
}
