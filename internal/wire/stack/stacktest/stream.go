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
	stub := startService(t, s).stub()
	for _, parts := range [][]string{{}, {"only"}, {"a", "", "bc", strings.Repeat("d", 1<<20)}} {
		stream, err := stub.ClientStream(checkContext(t))
		requireNoError(t, "ClientStream", err)
		for _, part := range parts {
			requireNoError(t, "Send", stream.Send(&testpb.TestRequest{Body: []byte(part)}))
		}
		out, err := stream.CloseAndRecv()
		requireNoError(t, "CloseAndRecv", err)
		if string(out.Body) != strings.Join(parts, "") || int(out.Index) != len(parts) {
			t.Errorf("sent %d parts, received %d with %d bytes", len(parts), out.Index, len(out.Body))
		}
	}
}

func checkServerStream(t testing.TB, s Subject) {
	if !s.carries(t, stack.ServerStream) {
		return
	}
	stub := startService(t, s).stub()
	for _, count := range []int32{0, 1, 500} {
		stream, err := stub.ServerStream(checkContext(t), &testpb.TestRequest{Count: count, Body: []byte("part")})
		requireNoError(t, "ServerStream", err)
		for i := range count {
			out, err := stream.Recv()
			if err != nil {
				t.Fatalf("receive response %d of %d: %v", i, count, err)
			}
			if out.Index != i || string(out.Body) != "part" {
				t.Fatalf("response %d of %d is %v", i, count, out)
			}
		}
		expectEnd(t, stream)
	}
}

// checkBidi waits for each answer before it sends the next message, and after CloseSend for the
// rest.
func checkBidi(t testing.TB, s Subject) {
	if !s.carries(t, stack.Bidi) {
		return
	}
	stream, err := startService(t, s).stub().Bidi(checkContext(t))
	requireNoError(t, "Bidi", err)
	send := func(i int) {
		t.Helper()
		if err := stream.Send(&testpb.TestRequest{Body: randomBytes(i*100, byte(i))}); err != nil {
			t.Fatalf("send request %d: %v", i, err)
		}
	}
	receive := func(i int) {
		t.Helper()
		out, err := stream.Recv()
		if err != nil {
			t.Fatalf("receive response %d: %v", i, err)
		}
		if int(out.Index) != i || string(out.Body) != string(randomBytes(i*100, byte(i))) {
			t.Fatalf("response %d has index %d and %d bytes", i, out.Index, len(out.Body))
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
	requireNoError(t, "CloseSend", stream.CloseSend())
	for i := range unread {
		receive(pings + i)
	}
	expectEnd(t, stream)
}

// streamCalls returns a function per kind of stream. Each function makes a call and returns the
// error that ended the call. When the server ends the call, the client still has messages to send
// or read.
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
	stub := startService(t, s).stub()
	for kind, call := range streamCalls(t, stub) {
		if !s.carries(t, kind) {
			continue
		}
		err := call(checkContext(t), &testpb.TestRequest{Code: int32(codes.Aborted), Message: "enough", Count: 3})
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
	r := startService(t, s)
	stub := r.stub()
	ctx, cancel := context.WithCancel(checkContext(t))
	stream, err := stub.Bidi(ctx)
	requireNoError(t, "Bidi", err)
	requireNoError(t, "Send", stream.Send(&testpb.TestRequest{Body: []byte("ping")}))
	_, err = stream.Recv()
	requireNoError(t, "Recv", err)
	cancel()
	expectPrompt(t, "Recv after cancel", func() {
		_, err := stream.Recv()
		expectCode(t, err, codes.Canceled)
	})
	if !s.lacks(t, Cancellation) {
		r.awaitEnded()
	}
	expectRecovery(t, stub)
}

// checkUnsupportedKinds checks that kinds of call that the variant does not support fail with
// Unimplemented and CheckKind's reason.
func checkUnsupportedKinds(t testing.TB, s Subject) {
	stub := startService(t, s).stub()
	for kind, call := range streamCalls(t, stub) {
		reason := stack.CheckKind(s.Stack, s.Variant, kind)
		if reason == nil {
			continue
		}
		t.Logf("%s carries no %s: %v", s.Variant, kind, reason)
		if !errors.Is(reason, stack.ErrUnsupported) {
			t.Errorf("%s: %q does not wrap ErrUnsupported", kind, reason)
		}
		err := call(checkContext(t), &testpb.TestRequest{Count: 1})
		expectCode(t, err, codes.Unimplemented)
		if message := status.Convert(err).Message(); !strings.Contains(message, reason.Error()) {
			t.Errorf("%s: the caller gets %q, want %q", kind, message, reason)
		}
	}
	expectEcho(t, stub, "after")
}
