package stacktest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// filling returns incompressible bytes, the same for the same seed.
func filling(sizeBytes int, seed byte) []byte {
	data := make([]byte, sizeBytes)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

func checkSizes(t testing.TB, s Subject) {
	stub := start(t, s).stub()
	largest := 15 << 20
	if testing.Short() {
		largest = 2 << 20 // the race detector looks at every byte; the full tests do without
	}
	for i, sizeBytes := range []int{0, 1, 127, 128, 4 << 10, 64<<10 - 1, 1 << 20, largest, 0} {
		body := filling(sizeBytes, byte(i))
		out, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: body})
		if err != nil {
			t.Errorf("%d bytes: %v", sizeBytes, err)
			continue
		}
		if !bytes.Equal(out.Body, body) {
			t.Errorf("%d bytes came back as %d bytes, not the same", sizeBytes, len(out.Body))
		}
	}
}

// checkAnswerReplaces expects what grpc-go does: the answer replaces the content of
// the caller's message, and is not merged into it.
func checkAnswerReplaces(t testing.TB, s Subject) {
	client := start(t, s).dial()
	out := &testpb.TestResponse{Index: 7, Metadata: map[string]string{"old": "value"}}
	err := client.Invoke(bounded(t), testpb.TestService_Unary_FullMethodName, &testpb.TestRequest{Body: []byte("new")}, out)
	noError(t, "Invoke", err)
	if string(out.Body) != "new" || out.Index != 0 || len(out.Metadata) != 0 {
		t.Errorf("the answer was merged into what the message held: %v", out)
	}
}

func checkOversizeRequest(t testing.TB, s Subject) {
	stub := start(t, s).stub()
	expectEcho(t, stub, "before")
	_, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: make([]byte, stack.MaxMessageBytes+1)})
	expectCode(t, err, codes.ResourceExhausted)
	expectRecovery(t, stub)
}

func checkOversizeResponse(t testing.TB, s Subject) {
	r := start(t, s)
	r.service.answerWith(func(_ context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		if string(in.Body) == "grow" {
			return &testpb.TestResponse{Body: make([]byte, stack.MaxMessageBytes+1)}, nil
		}
		return &testpb.TestResponse{Body: in.Body}, nil
	})
	stub := r.stub()
	expectEcho(t, stub, "before")
	_, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: []byte("grow")})
	expectCode(t, err, codes.ResourceExhausted)
	expectRecovery(t, stub)
}

// checkConcurrent looks at the answers only when all have come, so that it finds one
// that is in a reused buffer.
func checkConcurrent(t testing.TB, s Subject) {
	calls := 200
	if s.Lifecycle != conn.Kept {
		calls = 50 // each pays for a handshake, and a busy machine does few per second
	}
	r := start(t, s)
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: r.address, Connections: 4}))
	var (
		all     sync.WaitGroup
		answers = make([]*testpb.TestResponse, calls)
		errs    = make([]error, calls)
	)
	ctx := bounded(t)
	body := func(i int) string { return fmt.Sprintf("%d:%s", i, bytes.Repeat([]byte{byte(i)}, i*37)) }
	for i := range calls {
		all.Go(func() {
			answers[i], errs[i] = stub.Unary(ctx, &testpb.TestRequest{Body: []byte(body(i))})
		})
	}
	all.Wait()
	for i := range calls {
		if errs[i] != nil {
			t.Errorf("call %d: %v", i, errs[i])
		} else if got := string(answers[i].Body); got != body(i) {
			t.Errorf("call %d was answered with %.20q", i, got)
		}
	}
}

func checkUnknownMethod(t testing.TB, s Subject) {
	if s.lacks(t, OperationNames) {
		return
	}
	r := start(t, s)
	client := r.dial()
	unknown := []string{"/wirelab.stacktest.v1.TestService/Nothing", "/wirelab.nobody.v1.Nothing/Nothing"}
	if !s.lacks(t, ServiceNames) {
		unknown = append(unknown, "/wirelab.nobody.v1.Nothing/Unary")
	}
	for _, method := range unknown {
		err := client.Invoke(bounded(t), method, &testpb.TestRequest{Body: []byte("x")}, &testpb.TestResponse{})
		expectCode(t, err, codes.Unimplemented)
	}
	expectRecovery(t, testpb.NewTestServiceClient(client))
}
