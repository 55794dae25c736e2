// Package telemetry tests fastgrpc with OpenTelemetry's stats handlers. It has no other
// code.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc"
)

// observed is a client and a server that report to the same exporters.
type observed struct {
	client testgrpc.TestServiceClient
	tracer *trace.TracerProvider
	spans  *tracetest.InMemoryExporter
	meter  *metric.ManualReader
	stop   func()
}

// start runs fastgrpc's or grpc-go's client and server.
func start(t *testing.T, theirs bool) *observed {
	o := &observed{spans: tracetest.NewInMemoryExporter(), meter: metric.NewManualReader()}
	o.tracer = trace.NewTracerProvider(trace.WithSyncer(o.spans))
	opts := []otelgrpc.Option{
		otelgrpc.WithTracerProvider(o.tracer),
		otelgrpc.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(o.meter))),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
	}
	server, client := otelgrpc.NewServerHandler(opts...), otelgrpc.NewClientHandler(opts...)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := lis.Addr().String()
	if theirs {
		s := grpc.NewServer(grpc.StatsHandler(server))
		testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
		go func() { _ = s.Serve(lis) }()
		c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(client))
		if err != nil {
			t.Fatal(err)
		}
		o.client = testgrpc.NewTestServiceClient(c)
		o.stop = func() {
			_ = c.Close()
			s.GracefulStop()
		}
		return o
	}
	s := fastgrpc.NewServer(fastgrpc.StatsHandler(server))
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	go func() { _ = s.Serve(lis) }()
	c, err := fastgrpc.NewClient(address,
		fastgrpc.WithTransportCredentials(insecure.NewCredentials()), fastgrpc.WithStatsHandler(client))
	if err != nil {
		t.Fatal(err)
	}
	o.client = testgrpc.NewTestServiceClient(c)
	o.stop = func() {
		_ = c.Close()
		s.GracefulStop() // the server's spans have ended after it
	}
	return o
}

// traffic lists what OpenTelemetry must report for the calls of makeCalls.
var traffic = map[string]struct{ calls, failed int }{
	"grpc.testing.TestService/UnaryCall":      {calls: 2, failed: 1},
	"grpc.testing.TestService/FullDuplexCall": {calls: 1},
}

// makeCalls makes a unary call, one that fails, and a stream.
func makeCalls(ctx context.Context, t *testing.T, c testgrpc.TestServiceClient) {
	t.Helper()
	if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 10}); err != nil {
		t.Fatal(err)
	}
	fail := &testgrpc.EchoStatus{Code: int32(grpccodes.DataLoss), Message: "lost"}
	if _, err := c.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: fail}); status.Code(err) != grpccodes.DataLoss {
		t.Fatal(err)
	}
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		in := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: 1000}}}
		if err := s.Send(in); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// TestSpans checks that each call has a client span under the caller's span and a server
// span under the client span, with its status and an event for each message.
func TestSpans(t *testing.T) {
	o := start(t, false)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx, caller := o.tracer.Tracer("test").Start(ctx, "caller")
	makeCalls(ctx, t, o.client)
	caller.End()
	o.stop()
	spans := o.spans.GetSpans()
	clients := map[oteltrace.SpanID]tracetest.SpanStub{}
	for _, s := range spans {
		if s.SpanKind == oteltrace.SpanKindClient {
			clients[s.SpanContext.SpanID()] = s
		}
	}
	ends := map[string]map[oteltrace.SpanKind]int{}
	failed := map[string]int{}
	for _, s := range spans {
		if _, ok := traffic[s.Name]; !ok {
			continue
		}
		if ends[s.Name] == nil {
			ends[s.Name] = map[oteltrace.SpanKind]int{}
		}
		ends[s.Name][s.SpanKind]++
		if s.SpanContext.TraceID() != caller.SpanContext().TraceID() {
			t.Errorf("%s (%v) is in another trace", s.Name, s.SpanKind)
		}
		switch s.SpanKind {
		case oteltrace.SpanKindClient:
			if s.Parent.SpanID() != caller.SpanContext().SpanID() {
				t.Errorf("%s: the client's span is not under the caller's", s.Name)
			}
		case oteltrace.SpanKindServer:
			if client, ok := clients[s.Parent.SpanID()]; !ok || client.Name != s.Name || !s.Parent.IsRemote() {
				t.Errorf("%s: the server's span is under %v", s.Name, s.Parent)
			}
		}
		if s.Status.Code == codes.Error {
			failed[s.Name]++
		}
	}
	for name, want := range traffic {
		client, server := ends[name][oteltrace.SpanKindClient], ends[name][oteltrace.SpanKindServer]
		if client != want.calls || server != want.calls || failed[name] != 2*want.failed {
			t.Errorf("%s has %d clients' spans and %d servers', %d failed; want %+v", name, client, server, failed[name], want)
		}
	}
}

// TestSameAsGRPCGo checks that spans and metrics are the same as for grpc-go's calls.
func TestSameAsGRPCGo(t *testing.T) {
	var spans, measurements [2][]string
	for i, theirs := range []bool{false, true} {
		o := start(t, theirs)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		makeCalls(ctx, t, o.client)
		o.stop()
		for _, s := range o.spans.GetSpans() {
			spans[i] = append(spans[i], fmt.Sprintf("%s %v %v %s", s.Name, s.SpanKind, s.Status, attributes(s.Attributes)))
		}
		var all metricdata.ResourceMetrics
		if err := o.meter.Collect(ctx, &all); err != nil {
			t.Fatal(err)
		}
		for _, m := range all.ScopeMetrics[0].Metrics {
			if durations, ok := m.Data.(metricdata.Histogram[float64]); ok {
				for _, p := range durations.DataPoints {
					measurements[i] = append(measurements[i], fmt.Sprintf("%s %d %s", m.Name, p.Count, attributes(p.Attributes.ToSlice())))
				}
			}
		}
		slices.Sort(spans[i])
		slices.Sort(measurements[i])
	}
	if !slices.Equal(spans[0], spans[1]) || len(spans[0]) != 6 {
		t.Errorf("fastgrpc's spans:\n%s\ngrpc-go's:\n%s", strings.Join(spans[0], "\n"), strings.Join(spans[1], "\n"))
	}
	if !slices.Equal(measurements[0], measurements[1]) || len(measurements[0]) == 0 {
		t.Errorf("fastgrpc's measurements:\n%s\ngrpc-go's:\n%s", strings.Join(measurements[0], "\n"), strings.Join(measurements[1], "\n"))
	}
}

// attributes returns all attributes but the ports, which differ each time.
func attributes(all []attribute.KeyValue) string {
	var text []string
	for _, a := range all {
		if !strings.HasSuffix(string(a.Key), ".port") {
			text = append(text, string(a.Key)+"="+a.Value.String())
		}
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

// TestMetrics checks that both ends count each call once, by method and status.
func TestMetrics(t *testing.T) {
	o := start(t, false)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	makeCalls(ctx, t, o.client)
	o.stop()
	var all metricdata.ResourceMetrics
	if err := o.meter.Collect(ctx, &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			durations, ok := m.Data.(metricdata.Histogram[float64])
			if !ok || !strings.HasSuffix(m.Name, "duration") {
				continue
			}
			for _, p := range durations.DataPoints {
				got[m.Name+" "+describe(p.Attributes)] += p.Count
				if p.Sum <= 0 || p.Sum > 10_000 {
					t.Errorf("%s is %v", m.Name, p.Sum)
				}
			}
		}
	}
	for _, end := range []string{"rpc.client.call.duration", "rpc.server.call.duration"} {
		for call, want := range map[string]uint64{
			"grpc.testing.TestService/UnaryCall OK":        1,
			"grpc.testing.TestService/UnaryCall DATA_LOSS": 1,
			"grpc.testing.TestService/FullDuplexCall OK":   1,
		} {
			if n := got[end+" "+call]; n != want {
				t.Errorf("%s %s counts %d, want %d, of %v", end, call, n, want, got)
			}
		}
	}
}

// describe returns a call's method and status.
func describe(set attribute.Set) string {
	var method, code string
	for _, a := range set.ToSlice() {
		switch a.Key {
		case "rpc.method":
			method = a.Value.AsString()
		case "rpc.response.status_code":
			code = a.Value.AsString()
		}
	}
	return method + " " + code
}
