package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The service of the benchmark: one field of bytes each way, so that the codec
// weighs as little as it can and the transport as much. The stubs are what
// protoc-gen-go-grpc would write.
const (
	serviceName = "wirelab.fastgrpc.Benchmark"
	methodEcho  = "/" + serviceName + "/Echo"
	methodPut   = "/" + serviceName + "/Put"
	methodGet   = "/" + serviceName + "/Get"
)

type service interface {
	Echo(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
	Put(grpc.ServerStream) error
	Get(*wrapperspb.BytesValue, grpc.ServerStream) error
}

var (
	putDesc = grpc.StreamDesc{StreamName: "Put", ClientStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
		return srv.(service).Put(s)
	}}
	getDesc = grpc.StreamDesc{StreamName: "Get", ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
		in := new(wrapperspb.BytesValue)
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		return srv.(service).Get(in, s)
	}}
	serviceDesc = grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*service)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(srv any, ctx context.Context, dec func(any) error, in grpc.UnaryServerInterceptor) (any, error) {
			req := new(wrapperspb.BytesValue)
			if err := dec(req); err != nil {
				return nil, err
			}
			if in == nil {
				return srv.(service).Echo(ctx, req)
			}
			return in(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: methodEcho}, func(ctx context.Context, req any) (any, error) {
				return srv.(service).Echo(ctx, req.(*wrapperspb.BytesValue))
			})
		}}},
		Streams: []grpc.StreamDesc{putDesc, getDesc},
	}
)

type benchService struct{}

// Echo answers with what it was sent.
func (benchService) Echo(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return in, nil
}

// Put counts what it is sent.
func (benchService) Put(s grpc.ServerStream) error {
	total := uint64(0)
	m := new(wrapperspb.BytesValue)
	for {
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			return s.SendMsg(wrapperspb.Bytes(binary.BigEndian.AppendUint64(nil, total)))
		} else if err != nil {
			return err
		}
		total += uint64(len(m.Value))
	}
}

// Get sends as many chunks, as long, as it is asked for.
func (benchService) Get(in *wrapperspb.BytesValue, s grpc.ServerStream) error {
	chunks := binary.BigEndian.Uint32(in.Value)
	m := wrapperspb.Bytes(make([]byte, binary.BigEndian.Uint32(in.Value[4:])))
	for range chunks {
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// stub is the client's side.
type stub struct{ grpc.ClientConnInterface }

// Echo is a unary call as generated code makes it.
func (c stub) Echo(ctx context.Context, in *wrapperspb.BytesValue, opts ...grpc.CallOption) (*wrapperspb.BytesValue, error) {
	opts = append([]grpc.CallOption{grpc.StaticMethod()}, opts...)
	out := new(wrapperspb.BytesValue)
	if err := c.Invoke(ctx, methodEcho, in, out, opts...); err != nil {
		return nil, err
	}
	return out, nil
}
