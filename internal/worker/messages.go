package worker

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// messages counts the bytes of the encoded messages that calls send and receive.
type messages struct {
	conn           grpc.ClientConnInterface
	sent, received atomic.Int64 // bytes
}

var _ grpc.ClientConnInterface = (*messages)(nil)

// Invoke counts both messages of a successful call.
func (m *messages) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	m.sent.Add(sizeOf(args))
	err := m.conn.Invoke(ctx, method, args, reply, options...)
	if err == nil {
		m.received.Add(sizeOf(reply))
	}
	return err
}

// NewStream counts the messages of a stream.
func (m *messages) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := m.conn.NewStream(ctx, desc, method, options...)
	if err != nil {
		return nil, err
	}
	return &countedStream{ClientStream: stream, home: m}, nil
}

type countedStream struct {
	grpc.ClientStream
	home *messages
}

func (s *countedStream) SendMsg(m any) error {
	s.home.sent.Add(sizeOf(m))
	return s.ClientStream.SendMsg(m)
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.home.received.Add(sizeOf(m))
	}
	return err
}

func sizeOf(message any) int64 {
	m, is := message.(proto.Message)
	if !is {
		return 0
	}
	return int64(proto.Size(m))
}
