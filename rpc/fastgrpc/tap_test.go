package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
)

type tapKey struct{}

// tapCalls refuses calls as their metadata says, and marks the context of the others.
func tapCalls(ctx context.Context, info *tap.Info) (context.Context, error) {
	if _, ok := peer.FromContext(ctx); !ok || info.FullMethodName == "" {
		return nil, status.Error(codes.DataLoss, "a call without a peer or a method")
	}
	if grpc.SetHeader(ctx, metadata.Pairs("a", "b")) == nil {
		return nil, status.Error(codes.DataLoss, "the call's stream may be used")
	}
	switch md, _ := metadata.FromIncomingContext(ctx); {
	case len(info.Header["refuse"]) == 0 && len(md["refuse"]) == 0:
		return context.WithValue(ctx, tapKey{}, info.FullMethodName), nil
	case md["refuse"][0] == "status":
		return nil, status.Error(codes.ResourceExhausted, "later")
	}
	return nil, errors.New("no")
}

type tapped struct {
	testgrpc.UnimplementedTestServiceServer
}

func (tapped) UnaryCall(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{Username: fmt.Sprint(ctx.Value(tapKey{}))}, grpc.SetHeader(ctx, metadata.Pairs("set", "yes"))
}

func (tapped) FullDuplexCall(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	return status.Error(codes.Aborted, fmt.Sprint(s.Context().Value(tapKey{})))
}

// TestInTapHandle compares calls that a tap sees with grpc-go.
func TestInTapHandle(t *testing.T) {
	var results [2][]string
	for i, s := range []grpcServer{NewServer(InTapHandle(tapCalls)), grpc.NewServer(grpc.InTapHandle(tapCalls))} {
		stub := testgrpc.NewTestServiceClient(dialFast(t, serveTest(t, s, tapped{})))
		for _, refuse := range []string{"", "status", "error"} {
			ctx := testContext(t)
			if refuse != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "refuse", refuse)
			}
			var header metadata.MD
			out, err := stub.UnaryCall(ctx, request(nil), grpc.Header(&header))
			results[i] = append(results[i], fmt.Sprint(out.GetUsername(), header["set"], err))
			results[i] = append(results[i], fmt.Sprint(bidiError(ctx, stub, nil)))
		}
	}
	for n, ours := range results[0] {
		if theirs := results[1][n]; ours != theirs {
			t.Errorf("fastgrpc: %s; grpc-go: %s", ours, theirs)
		}
	}
}

// firstCodec is a codec of grpc-go's first interface.
type firstCodec struct{ used *int }

func (firstCodec) Name() string { return "first" }

func (c firstCodec) Marshal(v any) ([]byte, error) {
	*c.used++
	return proto.Marshal(v.(proto.Message))
}

func (c firstCodec) Unmarshal(data []byte, v any) error {
	*c.used++
	return proto.Unmarshal(data, v.(proto.Message))
}

// TestForceServerCodec checks that a codec of the first interface is used.
func TestForceServerCodec(t *testing.T) {
	used := 0
	var codec encoding.Codec = firstCodec{&used}
	_, target := startFast(t, ForceServerCodec(codec))
	if err := ping(testContext(t), dialFast(t, target)); err != nil || used != 2 {
		t.Errorf("a forced codec was used %d times, want 2: %v", used, err)
	}
}
