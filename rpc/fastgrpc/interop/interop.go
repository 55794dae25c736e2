// Package interop runs gRPC's interoperability test with fastgrpc. The cases and the
// test service are grpc-go's own, google.golang.org/grpc/interop; this package gives
// them fastgrpc's client and server. The programs in client and server have the flags of
// grpc-go's, so the client can run against any implementation's server and the server
// against any implementation's client.
//
// grpc/doc/interop-test-descriptions.md describes the cases. Two groups are left out of
// the client: those that need Google Cloud credentials, and orca_per_rpc and orca_oob,
// in which grpc-go reads load reports from a balancer that fastgrpc cannot run. The
// server sends the reports of orca_per_rpc.
//
// The tests build other projects' programs, pinned in go.mod, and run them against fastgrpc:
// grpc-go's client and server, grpcurl and h2spec. The machine must have curl, nghttp and h2load.
// gRPC's C core and Envoy come as Python packages. A test without its program says so and is
// skipped. In the folders beside this one:
//
//	conformance  the Connect project's conformance suite
//	examples     grpc-go's examples with fastgrpc in grpc-go's place
//	load         calls of all kinds under load, disturbance and poor conditions
//	swap         puts fastgrpc in grpc-go's place in programs
//	telemetry    OpenTelemetry's stats handlers
package interop

import (
	"context"
	"maps"
	"os"
	"slices"

	orcadata "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // clients may ask for it
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/rpc/fastgrpc"
)

// Case runs one case. It ends the process with a message if the case fails.
type Case func(context.Context, *grpc.ClientConn)

// Cases holds the client's cases by their official names.
var Cases = map[string]Case{
	"empty_unary":                 service(interop.DoEmptyUnaryCall),
	"large_unary":                 service(interop.DoLargeUnaryCall),
	"client_streaming":            service(interop.DoClientStreaming),
	"server_streaming":            service(interop.DoServerStreaming),
	"ping_pong":                   service(interop.DoPingPong),
	"empty_stream":                service(interop.DoEmptyStream),
	"timeout_on_sleeping_server":  service(interop.DoTimeoutOnSleepingServer),
	"cancel_after_begin":          service(interop.DoCancelAfterBegin),
	"cancel_after_first_response": service(interop.DoCancelAfterFirstResponse),
	"status_code_and_message":     service(interop.DoStatusCodeAndMessage),
	"special_status_message":      service(interop.DoSpecialStatusMessage),
	"custom_metadata":             service(interop.DoCustomMetadata),
	"unimplemented_method":        interop.DoUnimplementedMethod,
	"unimplemented_service": func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
	},
	"pick_first_unary": func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoPickFirstUnary(ctx, testgrpc.NewTestServiceClient(cc))
	},
}

func service(do func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) Case {
	return func(ctx context.Context, cc *grpc.ClientConn) { do(ctx, testgrpc.NewTestServiceClient(cc)) }
}

// Names returns the names of the cases in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(Cases)) }

// Channel returns a connection of grpc-go's type, for cases that need one; cc makes all its calls.
// It adds pairs to each call's metadata.
func Channel(cc grpc.ClientConnInterface, pairs ...string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///unused", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, in, out any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return cc.Invoke(metadata.AppendToOutgoingContext(ctx, pairs...), method, in, out, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return cc.NewStream(metadata.AppendToOutgoingContext(ctx, pairs...), desc, method, opts...)
		}))
}

// NewServer returns a server of the test service, health and reflection.
func NewServer(opts ...fastgrpc.ServerOption) *fastgrpc.Server {
	server := fastgrpc.NewServer(append(opts, fastgrpc.UnaryInterceptor(complete))...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	healthgrpc.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	return server
}

// complete adds two things to UnaryCall's response that grpc-go's service omits: its name, and a
// load report in the trailers, for which grpc-go's server has an option of its own.
func complete(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	in, ok := request.(*testgrpc.SimpleRequest)
	if err != nil || !ok {
		return response, err
	}
	if in.GetFillServerId() {
		if response.(*testgrpc.SimpleResponse).ServerId, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	if r := in.GetOrcaPerQueryReport(); r != nil {
		report, err := proto.Marshal(&orcadata.OrcaLoadReport{
			CpuUtilization: r.GetCpuUtilization(), MemUtilization: r.GetMemoryUtilization(),
			RequestCost: r.GetRequestCost(), Utilization: r.GetUtilization(),
		})
		if err != nil {
			return nil, err
		}
		return response, grpc.SetTrailer(ctx, metadata.Pairs("endpoint-load-metrics-bin", string(report)))
	}
	return response, nil
}
