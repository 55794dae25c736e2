package interop

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/ringhash"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds" // for outlier detection

	"wirelab.dev/rpc/fastgrpc"
)

// loaded is a server that reports its load with each call, and apart from calls.
type loaded struct {
	testgrpc.UnimplementedTestServiceServer
	utilization float64
	fails       bool
}

func (l loaded) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	if l.fails {
		return nil, status.Error(codes.Unavailable, "broken")
	}
	if r := orca.CallMetricsRecorderFromContext(ctx); r != nil {
		r.SetApplicationUtilization(l.utilization)
		r.SetQPS(100)
	}
	return &testgrpc.Empty{}, nil
}

func (l loaded) start(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(orca.CallMetricsServerOption(nil))
	testgrpc.RegisterTestServiceServer(s, l)
	metrics := orca.NewServerMetricsRecorder()
	metrics.SetApplicationUtilization(l.utilization)
	metrics.SetQPS(100)
	if err := orca.Register(s, orca.ServiceOptions{ServerMetricsProvider: metrics}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	return lis.Addr().String()
}

// TestBalancersThatMeasure checks that grpc-go's balancers which watch calls or load
// reports get them from fastgrpc's connections.
func TestBalancersThatMeasure(t *testing.T) {
	const weighted = `{"loadBalancingConfig": [{"weighted_round_robin": {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s", "enableOobLoadReport": %v, "oobReportingPeriod": "1s"}}]}`
	for _, c := range []struct {
		name, config string
		fails        bool // the first backend
		want         func(first, second int) bool
	}{
		{"load reports of calls", fmt.Sprintf(weighted, false), false, func(first, second int) bool { return first > 3*second && second > 0 }},
		{"load reports by streams", fmt.Sprintf(weighted, true), false, func(first, second int) bool { return first > 3*second && second > 0 }},
		{
			"outliers", `{"loadBalancingConfig": [{"outlier_detection_experimental": {"interval": "0.05s", "baseEjectionTime": "60s", "maxEjectionPercent": 100,
			"failurePercentageEjection": {"threshold": 50, "enforcementPercentage": 100, "minimumHosts": 1, "requestVolume": 5}, "childPolicy": [{"round_robin": {}}]}}]}`,
			true, func(first, second int) bool { return first == 0 && second == 100 },
		},
		{"a ring", `{"loadBalancingConfig": [{"ring_hash_experimental": {"requestHashHeader": "user"}}]}`, false, func(first, second int) bool { return first == 100 || second == 100 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			addrs := []string{loaded{utilization: 0.1, fails: c.fails}.start(t), loaded{utilization: 0.9}.start(t)}
			r := manual.NewBuilderWithScheme("test")
			r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: addrs[0]}, {Addr: addrs[1]}}})
			client, err := fastgrpc.NewClient("test:///any", fastgrpc.WithTransportCredentials(insecure.NewCredentials()),
				fastgrpc.WithResolvers(r), fastgrpc.WithDefaultServiceConfig(c.config))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "user", "alice"), time.Minute)
			defer cancel()
			for {
				counts := [2]int{}
				for range 100 {
					var p peer.Peer
					_, _ = testgrpc.NewTestServiceClient(client).EmptyCall(ctx, &testgrpc.Empty{}, grpc.Peer(&p), grpc.WaitForReady(true))
					if p.Addr != nil {
						counts[slices.Index(addrs, p.Addr.String())]++
					}
				}
				if c.want(counts[0], counts[1]) {
					return
				}
				if ctx.Err() != nil {
					t.Fatalf("after a minute, %v of 100 calls go to the backends", counts)
				}
			}
		})
	}
}
