package fastgrpc

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// keepsContexts keeps the contexts of its calls.
type keepsContexts struct {
	testgrpc.UnimplementedTestServiceServer
	mu   sync.Mutex
	kept map[string]context.Context
}

func callNumber(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return md.Get("number")[0]
}

func (k *keepsContexts) EmptyCall(ctx context.Context, in *testgrpc.Empty) (*testgrpc.Empty, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[callNumber(ctx)] = ctx //nolint:fatcontext // the test keeps it on purpose
	return in, grpc.SetHeader(ctx, metadata.Pairs("number", callNumber(ctx)))
}

// TestKeptContexts checks that a context which a handler keeps stays that of its own call, although the
// call's memory serves other calls, and that nothing can be sent through it.
func TestKeptContexts(t *testing.T) {
	service := &keepsContexts{kept: make(map[string]context.Context)}
	stub := testgrpc.NewTestServiceClient(dialFast(t, serveTest(t, NewServer(), service)))
	misuse := func() {
		service.mu.Lock()
		defer service.mu.Unlock()
		for number, ctx := range service.kept {
			if ctx.Err() == nil {
				continue // the handler's return is under way
			}
			if got := callNumber(ctx); got != number {
				t.Errorf("the context of call %s has the metadata of call %s", number, got)
			}
			if p, ok := peer.FromContext(ctx); !ok || p.Addr == nil {
				t.Errorf("the context of call %s has no peer", number)
			}
			md := metadata.Pairs("number", "of another call")
			for what, err := range map[string]error{
				"SetHeader": grpc.SetHeader(ctx, md), "SendHeader": grpc.SendHeader(ctx, md),
				"SetTrailer": grpc.SetTrailer(ctx, md), "SetSendCompressor": SetSendCompressor(ctx, "identity"),
			} {
				if err == nil {
					t.Errorf("%s of a call that is over succeeds", what)
				}
			}
			if got := status.Code(grpc.SendHeader(ctx, md)); got != codes.Canceled {
				t.Errorf("SendHeader of a call that is over returns %v, want Canceled", got)
			}
		}
	}
	var calls sync.WaitGroup
	for caller := range 8 {
		calls.Go(func() {
			for i := range 50 {
				number := strconv.Itoa(caller*1000 + i)
				var header metadata.MD
				ctx := metadata.AppendToOutgoingContext(testContext(t), "number", number)
				if _, err := stub.EmptyCall(ctx, &testgrpc.Empty{}, grpc.Header(&header)); err != nil {
					t.Error(err)
					return
				}
				if got := header.Get("number"); len(got) != 1 || got[0] != number {
					t.Errorf("call %s received the header of call %q", number, got)
				}
				if i%10 == 0 {
					misuse()
				}
			}
		})
	}
	calls.Wait()
	if misuse(); len(service.kept) != 400 {
		t.Errorf("%d calls were made, want 400", len(service.kept))
	}
}
