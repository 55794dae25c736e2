package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// callLog records the stats events of a call.
type callLog struct {
	mu     sync.Mutex
	events []string
}

func (l *callLog) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (l *callLog) HandleRPC(_ context.Context, s stats.RPCStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := describeEvent(s); text != "" {
		l.events = append(l.events, text)
	}
}

func (l *callLog) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (l *callLog) HandleConn(context.Context, stats.ConnStats)                       {}

// describeEvent formats the fields of an event that both libraries must report alike.
func describeEvent(s stats.RPCStats) string {
	switch e := s.(type) {
	case *stats.Begin:
		return fmt.Sprintf("Begin client=%v streams=%v,%v failfast=%v retry=%v", e.Client, e.IsClientStream, e.IsServerStream, e.FailFast, e.IsTransparentRetryAttempt)
	case *stats.DelayedPickComplete:
		return "DelayedPickComplete"
	case *stats.OutHeader:
		return fmt.Sprintf("OutHeader client=%v method=%s %v address=%v authority=%v compression=%s", e.Client, e.FullMethod, keys(e.Header), e.RemoteAddr != nil, e.Authority != "", e.Compression)
	case *stats.InHeader:
		return fmt.Sprintf("InHeader client=%v method=%s %v compression=%s address=%v length=%v", e.Client, e.FullMethod, keys(e.Header), e.Compression, e.RemoteAddr != nil, e.WireLength > 0)
	case *stats.OutPayload:
		return fmt.Sprintf("OutPayload client=%v %d %v %d", e.Client, e.Length, e.CompressedLength < e.Length, e.WireLength-e.CompressedLength)
	case *stats.InPayload:
		return fmt.Sprintf("InPayload client=%v %d %v %d", e.Client, e.Length, e.CompressedLength < e.Length, e.WireLength-e.CompressedLength)
	case *stats.OutTrailer:
		return fmt.Sprintf("OutTrailer client=%v %v", e.Client, keys(e.Trailer))
	case *stats.InTrailer:
		return fmt.Sprintf("InTrailer client=%v %v length=%v", e.Client, keys(e.Trailer), e.WireLength > 0)
	case *stats.End:
		return fmt.Sprintf("End client=%v %v", e.Client, status.Code(e.Error))
	}
	return fmt.Sprintf("%T", s)
}

func keys(md metadata.MD) string {
	return strings.Join(slices.Sorted(maps.Keys(md)), ",")
}

// inOrder puts aside the events whose place in grpc-go depends on its goroutines: those
// that its client's reader reports.
func inOrder(events []string) (fixed, loose []string) {
	for _, e := range events {
		if strings.HasPrefix(e, "In") && strings.Contains(e, "client=true") {
			loose = append(loose, e)
		} else {
			fixed = append(fixed, e)
		}
	}
	slices.Sort(loose)
	return fixed, loose
}

// TestStatsMatchGRPCGo checks that a stats handler gets the same events as in grpc-go.
func TestStatsMatchGRPCGo(t *testing.T) {
	for name, call := range map[string]func(context.Context, testgrpc.TestServiceClient) error{
		"unary": func(ctx context.Context, c testgrpc.TestServiceClient) error {
			_, err := c.UnaryCall(metadata.AppendToOutgoingContext(ctx, "echo", "yes"), request(make([]byte, 1000)))
			return err
		},
		"gzip": func(ctx context.Context, c testgrpc.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, request(make([]byte, 1000)), grpc.UseCompressor(gzip.Name))
			return err
		},
		"failure": func(ctx context.Context, c testgrpc.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: int32(codes.DataLoss)}})
			if status.Code(err) != codes.DataLoss {
				return fmt.Errorf("got %w", err)
			}
			return nil
		},
		"stream": func(ctx context.Context, c testgrpc.TestServiceClient) error {
			s, err := c.FullDuplexCall(ctx)
			for range 2 {
				if err == nil {
					err = s.Send(duplexRequest(1, 100))
				}
				if err == nil {
					_, err = s.Recv()
				}
			}
			if err == nil {
				err = s.CloseSend()
			}
			if err == nil {
				_, err = s.Recv()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := eventsOf(t, false, call), eventsOf(t, true, call)
			for end := range ours {
				ourOrder, ourOthers := inOrder(ours[end])
				theirOrder, theirOthers := inOrder(theirs[end])
				if !slices.Equal(ourOrder, theirOrder) || !slices.Equal(ourOthers, theirOthers) {
					t.Errorf("fastgrpc's events:\n%s\ngrpc-go's:\n%s", strings.Join(ours[end], "\n"), strings.Join(theirs[end], "\n"))
				}
			}
		})
	}
}

// eventsOf returns the events that a client's and a server's handler get for a call.
func eventsOf(t *testing.T, theirs bool, call func(context.Context, testgrpc.TestServiceClient) error) [2][]string {
	client, server := new(callLog), new(callLog)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s interface {
		grpcServer
		GracefulStop()
	}
	var c grpcClient
	if theirs {
		s = grpc.NewServer(grpc.StatsHandler(server))
		c, err = grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(client))
	} else {
		s = NewServer(StatsHandler(server))
		c, err = fastClient(lis.Addr().String(), WithStatsHandler(client))
	}
	if err != nil {
		t.Fatal(err)
	}
	testgrpc.RegisterTestServiceServer(s, echo{})
	go func() { _ = s.Serve(lis) }()
	// A call that connects is delayed, or not, by how fast that goes.
	connected := c.(interface {
		Connect()
		WaitForStateChange(context.Context, connectivity.State) bool
	})
	connected.Connect()
	for _, state := range []connectivity.State{connectivity.Idle, connectivity.Connecting} {
		connected.WaitForStateChange(testContext(t), state)
	}
	if err := call(testContext(t), testgrpc.NewTestServiceClient(c)); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	s.GracefulStop()
	return [2][]string{client.events, server.events}
}
