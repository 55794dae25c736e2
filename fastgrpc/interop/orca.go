package interop

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// With ORCA (gRFC A51), a server reports its load in a call's trailers or on a separate
// stream. This file encodes and decodes its messages, xds.data.orca.v3.OrcaLoadReport
// and xds.service.orca.v3.OrcaLoadReportRequest, field by field, so that the library
// does not depend on xDS. The cases check the reports themselves: fastgrpc lacks the
// balancer that grpc-go's client passes them to.
const (
	loadReportKey  = "endpoint-load-metrics-bin"
	loadReportPath = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"
	// shortestReport is the least interval between reports.
	shortestReport = time.Second
)

// The numbers of OrcaLoadReport's fields.
const (
	fieldCPU         protowire.Number = 1
	fieldMemory      protowire.Number = 2
	fieldRequestCost protowire.Number = 4
	fieldUtilization protowire.Number = 5
)

// loadReport encodes r as an OrcaLoadReport.
func loadReport(r *testgrpc.TestOrcaReport) []byte {
	b := appendDouble(nil, fieldCPU, r.GetCpuUtilization())
	b = appendDouble(b, fieldMemory, r.GetMemoryUtilization())
	b = appendCosts(b, fieldRequestCost, r.GetRequestCost())
	return appendCosts(b, fieldUtilization, r.GetUtilization())
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

func appendCosts(b []byte, field protowire.Number, costs map[string]float64) []byte {
	for name, v := range costs {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), appendDouble(entry, 2, v))
	}
	return b
}

// readLoadReport decodes an OrcaLoadReport. It skips fields that the test does not use.
func readLoadReport(b []byte) (*testgrpc.TestOrcaReport, error) {
	r := &testgrpc.TestOrcaReport{RequestCost: map[string]float64{}, Utilization: map[string]float64{}}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, fmt.Errorf("load report: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(field, kind, b[n:])
		if size < 0 {
			return nil, fmt.Errorf("load report: %w", protowire.ParseError(size))
		}
		value := b[n : n+size]
		b = b[n+size:]
		switch {
		case field == fieldCPU && kind == protowire.Fixed64Type:
			r.CpuUtilization = double(value)
		case field == fieldMemory && kind == protowire.Fixed64Type:
			r.MemoryUtilization = double(value)
		case field == fieldRequestCost && kind == protowire.BytesType:
			readCost(r.RequestCost, value)
		case field == fieldUtilization && kind == protowire.BytesType:
			readCost(r.Utilization, value)
		}
	}
	return r, nil
}

func double(value []byte) float64 {
	bits, _ := protowire.ConsumeFixed64(value)
	return math.Float64frombits(bits)
}

// readCost decodes a map entry. It ignores an invalid one; the report then differs from
// the expected one and the case fails.
func readCost(into map[string]float64, value []byte) {
	entry, _ := protowire.ConsumeBytes(value)
	_, _, n := protowire.ConsumeTag(entry)
	if n < 0 {
		return
	}
	name, size := protowire.ConsumeString(entry[n:])
	if size < 0 {
		return
	}
	_, kind, m := protowire.ConsumeTag(entry[n+size:])
	if m > 0 && kind == protowire.Fixed64Type {
		into[name] = double(entry[n+size+m:])
	}
}

// load holds the load report that a client last set.
type load struct {
	setting sync.Mutex // held by the one stream that sets it
	mu      sync.Mutex
	report  []byte
}

func (l *load) set(r *testgrpc.TestOrcaReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report = loadReport(r)
}

// raw returns a message with the given encoding, for messages without generated code.
func raw(encoding []byte) *emptypb.Empty {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(encoding)
	return m
}

// serve implements StreamCoreMetrics, OpenRcaService's only method.
func (l *load) serve(_ any, s grpc.ServerStream) error {
	in := &emptypb.Empty{}
	if err := s.RecvMsg(in); err != nil {
		return err
	}
	tick := time.NewTicker(max(shortestReport, reportInterval(in.ProtoReflect().GetUnknown())))
	defer tick.Stop()
	for {
		l.mu.Lock()
		report := slices.Clone(l.report)
		l.mu.Unlock()
		if err := s.SendMsg(raw(report)); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

// reportInterval returns the Duration in the first field of an OrcaLoadReportRequest.
func reportInterval(request []byte) time.Duration {
	_, _, n := protowire.ConsumeTag(request)
	if n < 0 {
		return 0
	}
	encoded, _ := protowire.ConsumeBytes(request[n:])
	d := &durationpb.Duration{}
	if err := proto.Unmarshal(encoded, d); err != nil {
		return 0
	}
	return d.AsDuration()
}

func (l *load) desc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "xds.service.orca.v3.OpenRcaService", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "StreamCoreMetrics", Handler: l.serve, ServerStreams: true}},
	}
}

func orcaPerRPC(ctx context.Context, cc grpc.ClientConnInterface) error {
	want := &testgrpc.TestOrcaReport{
		CpuUtilization: 0.8210, MemoryUtilization: 0.5847,
		RequestCost: map[string]float64{"cost": 3456.32}, Utilization: map[string]float64{"util": 0.30499},
	}
	var trailer metadata.MD
	if _, err := client(cc).UnaryCall(ctx, &testgrpc.SimpleRequest{OrcaPerQueryReport: want}, grpc.Trailer(&trailer)); err != nil {
		return err
	}
	reports := trailer[loadReportKey]
	if len(reports) != 1 {
		return fmt.Errorf("%d load reports in the trailer", len(reports))
	}
	if got, err := readLoadReport([]byte(reports[0])); err != nil || !proto.Equal(got, want) {
		return fmt.Errorf("load report is %v (%w), want %v", got, err, want)
	}
	return nil
}

func orcaOutOfBand(ctx context.Context, cc grpc.ClientConnInterface) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream of reports
	defer cancel()
	calls, err := client(cc).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	reports, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, loadReportPath)
	if err != nil {
		return err
	}
	interval, err := proto.Marshal(durationpb.New(shortestReport))
	if err != nil {
		return err
	}
	request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), interval)
	if err := reports.SendMsg(raw(request)); err != nil {
		return err
	}
	for _, want := range []*testgrpc.TestOrcaReport{
		{CpuUtilization: 0.8210, MemoryUtilization: 0.5847, Utilization: map[string]float64{"util": 0.30499}},
		{CpuUtilization: 0.29309, MemoryUtilization: 0.2, Utilization: map[string]float64{"util": 0.2039}},
	} {
		in := ask(1)
		in.OrcaOobReport = want
		if err := calls.Send(in); err != nil {
			return err
		}
		if err := expect(calls, 1); err != nil {
			return err
		}
		if err := awaitReport(reports, want); err != nil {
			return err
		}
	}
	if err := calls.CloseSend(); err != nil {
		return err
	}
	return expectEnd(calls)
}

// awaitReport reads reports until one equals want; the first few may be older.
func awaitReport(reports grpc.ClientStream, want *testgrpc.TestOrcaReport) error {
	for range 10 {
		m := &emptypb.Empty{}
		if err := reports.RecvMsg(m); err != nil {
			return fmt.Errorf("load reports: %w", err)
		}
		got, err := readLoadReport(m.ProtoReflect().GetUnknown())
		if err != nil {
			return err
		}
		if proto.Equal(got, want) {
			return nil
		}
	}
	return fmt.Errorf("none of 10 load reports is %v", want)
}
