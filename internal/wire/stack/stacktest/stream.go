package stacktest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

func expectEnd[Answer any](t testing.TB, stream interface{ Recv() (*Answer, error) }) {
	t.Helper()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want io.EOF", err)
	}
}

func checkClientStream(t testing.TB, s Subject) {
	if !s.carries(t, stack.ClientStream) {
		return
	}
	stub := start(t, s).stub()
	for _, parts := range [][]string{{}, {"only"}, {"a", "", "bc", strings.Repeat("d", 1<<20)}} {
		stream, err := stub.ClientStream(bounded(t))
		noError(t, "ClientStream", err)
		for _, part := range parts {
			noError(t, "Send", stream.Send(&testpb.TestRequest{Body: []byte(part)}))
		}
		out, err := stream.CloseAndRecv()
		noError(t, "CloseAndRecv", err)
		if string(out.Body) != strings.Join(parts, "") || int(out.Index) != len(parts) {
			t.Errorf("%d parts came out as %d with %d bytes", len(parts), out.Index, len(out.Body))
		}
	}
}

func checkServerStream(t testing.TB, s Subject) {
	if !s.carries(t, stack.ServerStream) {
		return
	}
	stub := start(t, s).stub()
	for _, count := range []int32{0, 1, 500} {
		stream, err := stub.ServerStream(bounded(t), &testpb.TestRequest{Count: count, Body: []byte("part")})
		noError(t, "ServerStream", err)
		for i := range count {
			out, err := stream.Recv()
			if err != nil {
				t.Fatalf("Recv of %d/%d: %v", i, count, err)
			}
			if out.Index != i || string(out.Body) != "part" {
				t.Fatalf("response %d/%d came as %v", i, count, out)
			}
		}
		expectEnd(t, stream)
	}
}

// checkBidi waits for each answer before it sends again, and continues to read after CloseSend.
func checkBidi(t testing.TB, s Subject) {
	if !s.carries(t, stack.Bidi) {
		return
	}
	stream, err := start(t, s).stub().Bidi(bounded(t))
	noError(t, "Bidi", err)
	send := func(i int) {
		t.Helper()
		if err := stream.Send(&testpb.TestRequest{Body: filling(i*100, byte(i))}); err != nil {
			t.Fatalf("Send of %d: %v", i, err)
		}
	}
	receive := func(i int) {
		t.Helper()
		out, err := stream.Recv()
		if err != nil {
			t.Fatalf("Recv of %d: %v", i, err)
		}
		if int(out.Index) != i || string(out.Body) != string(filling(i*100, byte(i))) {
			t.Fatalf("response %d came with index %d and %d bytes", i, out.Index, len(out.Body))
		}
	}
	const pings, unread = 50, 5
	for i := range pings {
		send(i)
		receive(i)
	}
	for i := range unread {
		send(pings + i)
	}
	noError(t, "CloseSend", stream.CloseSend())
	for i := range unread {
		receive(pings + i)
	}
	expectEnd(t, stream)
}

// streamCalls returns a call for each kind of stream, with the error at its end. When the server
// ends the call, its client still has messages to send or to read.
func streamCalls(t testing.TB, stub testpb.TestServiceClient) map[stack.Kind]func(context.Context, *testpb.TestRequest) error {
	return map[stack.Kind]func(context.Context, *testpb.TestRequest) error{
		stack.ClientStream: func(ctx context.Context, in *testpb.TestRequest) error {
			stream, err := stub.ClientStream(ctx)
			if err != nil {
				return err
			}
			for err == nil {
				err = stream.Send(in)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("Send after the end returned %v, want io.EOF", err)
			}
			_, err = stream.CloseAndRecv()
			return err
		},
		stack.ServerStream: func(ctx context.Context, in *testpb.TestRequest) error {
			stream, err := stub.ServerStream(ctx, in)
			for i := int32(0); err == nil && i <= in.Count; i++ {
				_, err = stream.Recv()
			}
			return err
		},
		stack.Bidi: func(ctx context.Context, in *testpb.TestRequest) error {
			stream, err := stub.Bidi(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(in); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	}
}

func checkEarlyEnd(t testing.TB, s Subject) {
	stub := start(t, s).stub()
	for kind, call := range streamCalls(t, stub) {
		if !s.carries(t, kind) {
			continue
		}
		err := call(bounded(t), &testpb.TestRequest{Code: int32(codes.Aborted), Message: "enough", Count: 3})
		if got := status.Convert(err); got.Code() != codes.Aborted || got.Message() != "enough" {
			t.Errorf("a %s that its handler aborts ended with %v", kind, err)
		}
	}
	expectRecovery(t, stub)
}

func checkStreamCancel(t testing.TB, s Subject) {
	if !s.carries(t, stack.Bidi) {
		return
	}
	r := start(t, s)
	stub := r.stub()
	ctx, cancel := context.WithCancel(bounded(t))
	stream, err := stub.Bidi(ctx)
	noError(t, "Bidi", err)
	noError(t, "Send", stream.Send(&testpb.TestRequest{Body: []byte("ping")}))
	_, err = stream.Recv()
	noError(t, "Recv", err)
	cancel()
	promptly(t, "Recv after cancel", func() {
		_, err := stream.Recv()
		expectCode(t, err, codes.Canceled)
	})
	if !s.lacks(t, Cancellation) {
		r.awaitEnded()
	}
	expectRecovery(t, stub)
}

// checkUnsupportedKinds expects Unimplemented, with CheckKind's reason, for missing kinds of call.
func checkUnsupportedKinds(t testing.TB, s Subject) {
	stub := start(t, s).stub()
	for kind, call := range streamCalls(t, stub) {
		reason := stack.CheckKind(s.Stack, s.Variant, kind)
		if reason == nil {
			continue
		}
		t.Logf("%s carries no %s: %v", s.Variant, kind, reason)
		if !errors.Is(reason, stack.ErrUnsupported) {
			t.Errorf("%s: %q does not wrap ErrUnsupported", kind, reason)
		}
		err := call(bounded(t), &testpb.TestRequest{Count: 1})
		expectCode(t, err, codes.Unimplemented)
		if message := status.Convert(err).Message(); !strings.Contains(message, reason.Error()) {
			t.Errorf("%s: the caller gets %q, want %q", kind, message, reason)
		}
	}
	expectEcho(t, stub, "after")
}
