package stacktest

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/internal/stack/stacktest/testpb"
)

// service does what the requests say. A check that needs more than they can
// say puts its own handler in with answerWith.
type service struct {
	testpb.UnimplementedTestServiceServer
	own atomic.Pointer[unaryHandler]

	running chan struct{} // one for each handler that begins a pause
	ended   chan struct{} // one for each handler whose context ended before it did
}

func newService() *service {
	return &service{running: make(chan struct{}, 1000), ended: make(chan struct{}, 1000)}
}

type unaryHandler func(context.Context, *testpb.TestRequest) (*testpb.TestResponse, error)

// answerWith may be called while the service is served: what a client sends
// after that is answered so, and the race detector cannot see that it is after.
func (s *service) answerWith(own unaryHandler) { s.own.Store(&own) }

func (s *service) Unary(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
	if own := s.own.Load(); own != nil {
		return (*own)(ctx, in)
	}
	if err := s.obey(ctx, in); err != nil {
		return nil, err
	}
	return &testpb.TestResponse{Body: in.Body}, nil
}

func (s *service) ClientStream(stream grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	var out testpb.TestResponse
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&out)
		}
		if err != nil {
			return s.interrupted(stream.Context(), err)
		}
		if err := s.obey(stream.Context(), in); err != nil {
			return err
		}
		out.Body = append(out.Body, in.Body...)
		out.Index++
	}
}

func (s *service) ServerStream(in *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
	for i := range in.Count {
		if err := stream.Send(&testpb.TestResponse{Body: in.Body, Index: i}); err != nil {
			return s.interrupted(stream.Context(), err)
		}
	}
	return s.obey(stream.Context(), in)
}

func (s *service) Bidi(stream grpc.BidiStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	for i := int32(0); ; i++ {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.interrupted(stream.Context(), err)
		}
		if err := s.obey(stream.Context(), in); err != nil {
			return err
		}
		if err := stream.Send(&testpb.TestResponse{Body: in.Body, Index: i}); err != nil {
			return s.interrupted(stream.Context(), err)
		}
	}
}

// obey pauses and fails as the request says.
func (s *service) obey(ctx context.Context, in *testpb.TestRequest) error {
	if in.SleepNs > 0 {
		s.running <- struct{}{}
		timer := time.NewTimer(time.Duration(in.SleepNs))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return s.interrupted(ctx, status.FromContextError(ctx.Err()).Err())
		}
	}
	if in.Code == 0 {
		return nil
	}
	failure := status.New(codes.Code(in.Code), in.Message)
	if len(in.Detail) > 0 {
		detailed, err := failure.WithDetails(wrapperspb.Bytes(in.Detail))
		if err != nil {
			return err
		}
		failure = detailed
	}
	return failure.Err()
}

// interrupted waits for the end of the context, which may follow the failed
// read or write by a moment, and reports it.
func (s *service) interrupted(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		s.ended <- struct{}{}
	case <-time.After(patience):
	}
	return err
}
