package fastgrpc

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
)

// TestExtremeLimits sets the limits to what a program may pass, and compares the codes
// of calls with grpc-go's.
func TestExtremeLimits(t *testing.T) {
	for _, limit := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt32, math.MaxInt32 + 1, 1000, 1, 0, -1, math.MinInt} {
		for _, compressor := range []string{"identity", gzip.Name} {
			var codes [2]string
			for i, server := range []grpcServer{
				NewServer(MaxRecvMsgSize(limit), MaxSendMsgSize(limit)),
				grpc.NewServer(grpc.MaxRecvMsgSize(limit), grpc.MaxSendMsgSize(limit)),
			} {
				target := serveTest(t, server, echo{})
				client, err := []func(string, ...ClientOption) (grpcClient, error){fastClient, theirClient}[i](target)
				if err != nil {
					t.Fatal(err)
				}
				stub := testgrpc.NewTestServiceClient(client)
				opts := []grpc.CallOption{grpc.UseCompressor(compressor)}
				_, err = stub.UnaryCall(testContext(t), request(make([]byte, 5000)), opts...)
				codes[i] = fmt.Sprint(status.Code(err))
				_, err = stub.EmptyCall(testContext(t), &testgrpc.Empty{}, opts...)
				codes[i] += fmt.Sprint(status.Code(err))
				generous := testgrpc.NewTestServiceClient(client)
				opts = append(opts, grpc.MaxCallRecvMsgSize(limit), grpc.MaxCallSendMsgSize(limit))
				_, err = generous.UnaryCall(testContext(t), request(make([]byte, 5000)), opts...)
				codes[i] += fmt.Sprint(status.Code(err))
				_ = client.Close()
			}
			if codes[0] != codes[1] {
				t.Errorf("limit %d, %s: fastgrpc %s, grpc-go %s", limit, compressor, codes[0], codes[1])
			}
		}
	}
}

// TestExtremeOptions checks that servers and clients with the largest values of options
// work, and that times near the end of time do not pass at once.
func TestExtremeOptions(t *testing.T) {
	for _, d := range []time.Duration{lifetime.Forever, lifetime.Forever - 1, lifetime.Forever - lifetime.Forever/20} {
		s, target := startFast(t,
			MaxConcurrentStreams(math.MaxUint32), MaxHeaderListSize(math.MaxUint32), Windows(math.MaxInt, math.MaxInt), ConnectionTimeout(d),
			KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: d, MaxConnectionAge: d, MaxConnectionAgeGrace: d, Time: d, Timeout: d}),
			KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: d}),
		)
		c := dialFast(t, target, WithMaxHeaderListSize(math.MaxUint32), WithWindows(math.MaxInt, math.MaxInt), WithIdleTimeout(d),
			WithKeepaliveParams(keepalive.ClientParameters{Time: d, Timeout: d, PermitWithoutStream: true}))
		ctx, cancel := context.WithTimeout(context.Background(), d)
		for range 2 {
			if err := ping(ctx, c); err != nil {
				t.Errorf("with %v: %v", d, err)
			}
		}
		if n := len(s.Conns()); n != 1 {
			t.Errorf("with %v the server has %d connections, want the first", d, n)
		}
		cancel()
	}
}
