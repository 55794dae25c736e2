// Package interop runs gRPC's interoperability tests with fastgrpc. It uses the test cases and the
// test service of google.golang.org/grpc/interop with fastgrpc's client and server. The programs in
// the folders client and server have the same flags as grpc-go's programs. So they can run against
// the client or server of any gRPC implementation.
//
// grpc/doc/interop-test-descriptions.md describes the cases. The client lacks the cases that need
// Google Cloud credentials. It also lacks orca_per_rpc and orca_oob, whose load reports grpc-go
// reads with a balancer that fastgrpc cannot run. The server supports orca_per_rpc.
//
// The tests build other projects' programs, pinned in go.mod, and run them against fastgrpc:
// grpc-go's client and server, grpcurl and h2spec. The machine must have curl, nghttp and h2load.
// gRPC's C core and Envoy come as Python packages. Tests whose program is missing are skipped with
// a message. These folders contain other tests and programs:
//
//	conformance  the Connect project's conformance suite
//	examples     grpc-go's examples, rewritten to use fastgrpc
//	load         calls of all kinds under load, with disturbances and slow networks
//	sequences    random calls, whose outcomes must be grpc-go's
//	suites       the test suites of programs that use grpc-go, rewritten to use fastgrpc
//	swap         rewrites programs to use fastgrpc instead of grpc-go
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
	_ "google.golang.org/grpc/encoding/gzip" // registers the compressor gzip, which clients may use
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/rpc/fastgrpc"
)

// Case runs one test case. If the case fails, Case prints a message and ends the process.
type Case func(context.Context, *grpc.ClientConn)

// Cases holds the client's test cases by their official names.
var Cases = map[string]Case{
	"empty_unary":                 serviceCase(interop.DoEmptyUnaryCall),
	"large_unary":                 serviceCase(interop.DoLargeUnaryCall),
	"client_streaming":            serviceCase(interop.DoClientStreaming),
	"server_streaming":            serviceCase(interop.DoServerStreaming),
	"ping_pong":                   serviceCase(interop.DoPingPong),
	"empty_stream":                serviceCase(interop.DoEmptyStream),
	"timeout_on_sleeping_server":  serviceCase(interop.DoTimeoutOnSleepingServer),
	"cancel_after_begin":          serviceCase(interop.DoCancelAfterBegin),
	"cancel_after_first_response": serviceCase(interop.DoCancelAfterFirstResponse),
	"status_code_and_message":     serviceCase(interop.DoStatusCodeAndMessage),
	"special_status_message":      serviceCase(interop.DoSpecialStatusMessage),
	"custom_metadata":             serviceCase(interop.DoCustomMetadata),
	"unimplemented_method":        interop.DoUnimplementedMethod,
	"unimplemented_service": func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
	},
	"pick_first_unary": func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoPickFirstUnary(ctx, testgrpc.NewTestServiceClient(cc))
	},
}

func serviceCase(do func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) Case {
	return func(ctx context.Context, cc *grpc.ClientConn) { do(ctx, testgrpc.NewTestServiceClient(cc)) }
}

// CaseNames returns the names of the test cases in alphabetical order.
func CaseNames() []string { return slices.Sorted(maps.Keys(Cases)) }

// NewChannel returns a *grpc.ClientConn whose calls are made by cc, because test cases need that
// type. It adds pairs, which are names and values in turn, to each call's metadata.
func NewChannel(cc grpc.ClientConnInterface, pairs ...string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///unused", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, in, out any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return cc.Invoke(metadata.AppendToOutgoingContext(ctx, pairs...), method, in, out, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return cc.NewStream(metadata.AppendToOutgoingContext(ctx, pairs...), desc, method, opts...)
		}))
}

// NewServer returns a server with the services test, health and reflection.
func NewServer(opts ...fastgrpc.ServerOption) *fastgrpc.Server {
	server := fastgrpc.NewServer(append(opts, fastgrpc.UnaryInterceptor(completeResponse))...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	healthgrpc.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	return server
}

// completeResponse is an interceptor that adds two things to UnaryCall's response, if the request
// asks for them: the server's name and, in the trailers, a load report. grpc-go's test service does
// not send them.
func completeResponse(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
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
