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

	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// testService follows the script in each request, or calls a handler set by setUnaryHandler.
type testService struct {
	testpb.UnimplementedTestServiceServer
	own atomic.Pointer[unaryHandler]

	running chan struct{} // gets a value when a handler begins a pause
	ended   chan struct{} // gets a value when a handler's context ends before the handler
}

func newService() *testService {
	return &testService{running: make(chan struct{}, 1000), ended: make(chan struct{}, 1000)}
}

type unaryHandler func(context.Context, *testpb.TestRequest) (*testpb.TestResponse, error)

// setUnaryHandler sets the handler of Unary. Call it at any time.
func (s *testService) setUnaryHandler(own unaryHandler) { s.own.Store(&own) }

func (s *testService) Unary(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
	if own := s.own.Load(); own != nil {
		return (*own)(ctx, in)
	}
	if err := s.followScript(ctx, in); err != nil {
		return nil, err
	}
	return &testpb.TestResponse{Body: in.Body}, nil
}

func (s *testService) ClientStream(stream grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	var out testpb.TestResponse
	err := s.receiveAll(stream.Context(), stream.Recv, func(in *testpb.TestRequest) error {
		out.Body = append(out.Body, in.Body...)
		out.Index++
		return nil
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&out)
}

func (s *testService) ServerStream(in *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
	for i := range in.Count {
		if err := stream.Send(&testpb.TestResponse{Body: in.Body, Index: i}); err != nil {
			return s.reportEnd(stream.Context(), err)
		}
	}
	return s.followScript(stream.Context(), in)
}

func (s *testService) Bidi(stream grpc.BidiStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	index := int32(0)
	return s.receiveAll(stream.Context(), stream.Recv, func(in *testpb.TestRequest) error {
		if err := stream.Send(&testpb.TestResponse{Body: in.Body, Index: index}); err != nil {
			return s.reportEnd(stream.Context(), err)
		}
		index++
		return nil
	})
}

// receiveAll follows the script in each request, and then passes the request to the function then.
func (s *testService) receiveAll(ctx context.Context, receive func() (*testpb.TestRequest, error), then func(*testpb.TestRequest) error) error {
	for {
		in, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.reportEnd(ctx, err)
		}
		if err := s.followScript(ctx, in); err != nil {
			return err
		}
		if err := then(in); err != nil {
			return err
		}
	}
}

func (s *testService) followScript(ctx context.Context, in *testpb.TestRequest) error {
	if in.SleepNs > 0 {
		s.running <- struct{}{}
		timer := time.NewTimer(time.Duration(in.SleepNs))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return s.reportEnd(ctx, status.FromContextError(ctx.Err()).Err())
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

// reportEnd reports that the context has ended. A failed read or write may be the first sign of
// this.
func (s *testService) reportEnd(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		s.ended <- struct{}{}
	case <-time.After(maxWait):
	}
	return err
}
