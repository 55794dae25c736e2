package connectstack

import (
	"context"
	"errors"
	"io"
	"syscall"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// Connect's codes are gRPC's, number for number.

// toConnect turns a handler's error into connect-go's error.
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

// toStatus turns connect-go's error into a gRPC status error.
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

// answered returns the status that the server sent.
func answered(failed *connect.Error) error {
	said := &spb.Status{Code: int32(failed.Code()), Message: failed.Message()}
	for _, detail := range failed.Details() {
		said.Details = append(said.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
	}
	return stack.WithCause(status.ErrorProto(said), failed)
}

// lostPeer reports whether an error came from a broken connection. connect-go reports an
// answer that was cut off as an invalid one, and a failed write as cancelled, which is
// right only on a server.
func lostPeer(failed *connect.Error) bool {
	cause := failed.Unwrap()
	return errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, syscall.EPIPE) || errors.Is(cause, syscall.ECONNRESET)
}
