package stack

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// perCall is a Client that opens a connection when a call begins, and closes it
// when the call ends.
type perCall struct {
	connector *Connector
	open      OpenFunc

	mu     sync.Mutex
	alive  map[Client]struct{}
	closed bool
}

var errPerCallClosed = status.Error(codes.Canceled, "the client is closed")

// Invoke opens a connection, makes the call, and closes it.
func (p *perCall) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	one, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer p.end(one)
	return one.Invoke(ctx, method, args, reply, options...)
}

// NewStream opens a connection, which is closed when the stream ends.
func (p *perCall) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	one, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := one.NewStream(ctx, desc, method, options...)
	if err != nil {
		p.end(one)
		return nil, err
	}
	end := sync.OnceFunc(func() { p.end(one) })
	context.AfterFunc(ctx, end) // a caller may leave a stream by ending its context
	return &callStream{ClientStream: stream, single: !desc.ServerStreams, end: end}, nil
}

func (p *perCall) begin(ctx context.Context) (Client, error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, errPerCallClosed
	}
	one, err := p.open(ctx, &FirstByte{begin: time.Now(), dialer: p.connector.Dialer})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = one.Close()
		return nil, errPerCallClosed
	}
	p.alive[one] = struct{}{}
	return one, nil
}

func (p *perCall) end(one Client) {
	p.mu.Lock()
	delete(p.alive, one)
	p.mu.Unlock()
	_ = one.Close() // the call has returned its own error
}

// Close closes all connections; running calls fail.
func (p *perCall) Close() error {
	p.mu.Lock()
	p.closed = true
	alive := p.alive
	p.alive = map[Client]struct{}{}
	p.mu.Unlock()
	for one := range alive {
		_ = one.Close()
	}
	return nil
}

// callStream calls end when the stream of a connection's only call is over.
type callStream struct {
	grpc.ClientStream
	single bool // the server sends one message
	end    func()
}

// RecvMsg ends the connection with the last message.
func (s *callStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.end()
	}
	return err
}
