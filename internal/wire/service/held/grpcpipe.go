package held

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// A streamer opens gRPC streams, whose messages are of the type []byte.
type streamer interface {
	OpenStream(ctx context.Context, request *service.Request) (grpc.ClientStream, error)
}

// grpcOpener opens gRPC streams on the shared connections of a client.
type grpcOpener struct {
	streamer
	exchange service.Exchange
}

func (g grpcOpener) openPipe(ctx context.Context, request *service.Request, _ pipe) (pipe, opened, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err := g.OpenStream(ctx, request)
	if err != nil {
		cancel()
		return nil, opened{}, err
	}
	p := &grpcPipe{stream: s, cancel: cancel, feed: g.exchange == service.Receive}
	if g.exchange != service.Receive {
		return p, opened{}, nil
	}
	for _, m := range request.Messages {
		if err := s.SendMsg(m); err != nil {
			return p, opened{}, p.sendError(err)
		}
	}
	if !request.Stream.Client {
		err = s.CloseSend()
	}
	return p, opened{}, err
}

// grpcPipe is an open gRPC stream.
type grpcPipe struct {
	stream  grpc.ClientStream
	cancel  context.CancelFunc
	feed    bool // the server sends without being asked, and need not end when the client does
	message []byte
}

func (g *grpcPipe) send(ctx context.Context, message []byte) error {
	defer context.AfterFunc(ctx, g.cancel)() // a sender may wait for the server's window
	return g.stream.SendMsg(message)
}

// sendError returns the server's reason why a message could not be sent.
func (g *grpcPipe) sendError(err error) error {
	if errors.Is(err, io.EOF) {
		_, err = g.receive()
	}
	return err
}

func (g *grpcPipe) receive() ([]byte, error) {
	err := g.stream.RecvMsg(&g.message)
	if err == nil {
		return g.message, nil
	}
	if errors.Is(err, io.EOF) {
		return nil, &service.EndError{Reason: "status OK", Normal: true, Class: failure.Closed}
	}
	if sent, is := status.FromError(err); is && failure.Of(err) == failure.Application {
		return nil, &service.EndError{Reason: "status " + sent.Code().String(), Class: failure.Application, Detail: sent.Message()}
	}
	return nil, err
}

func (g *grpcPipe) finish() {
	if g.feed {
		g.abort()
		return
	}
	_ = g.stream.CloseSend()
}

func (g *grpcPipe) abort() { g.cancel() }
