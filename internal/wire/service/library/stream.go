package library

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/rpc/fastgrpc"
)

// stream sends the request's messages and reads the answer's at the same time.
func stream(ctx context.Context, client *fastgrpc.Client, request *service.Request, answer *service.Answer, options []grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what is sent, when the answer has ended
	kind := &grpc.StreamDesc{ClientStreams: request.Stream.Client, ServerStreams: request.Stream.Server}
	begin := time.Now()
	s, err := client.NewStream(ctx, kind, request.Path, options...)
	if err != nil {
		return err
	}
	sends := sender{stream: s, request: request, begin: begin, sentAt: make([]atomic.Int64, len(request.Messages))}
	sending := make(chan struct{})
	go func() { // ends with the messages, or with ctx
		defer close(sending)
		sends.all(ctx)
	}()
	defer func() { cancel(); <-sending }()
	before := time.Duration(0)
	for {
		err := s.RecvMsg(&answer.Body)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		now := time.Since(begin)
		answer.Times = append(answer.Times, now-sends.answered(answer.Messages, before))
		before = now
		answer.Messages++
		answer.Bytes += int64(len(answer.Body))
		if !kind.ServerStreams {
			return nil
		}
	}
}

// A sender sends the messages of one call, and records the times.
type sender struct {
	stream  grpc.ClientStream
	request *service.Request
	begin   time.Time
	sentAt  []atomic.Int64 // from begin, in nanoseconds
}

func (s *sender) all(ctx context.Context) {
	for i, m := range s.request.Messages {
		if i > 0 && s.request.Pace > 0 {
			select {
			case <-time.After(s.request.Pace):
			case <-ctx.Done():
				return
			}
		}
		s.sentAt[i].Store(int64(time.Since(s.begin)))
		if s.stream.SendMsg(m) != nil {
			return // RecvMsg returns the reason
		}
	}
	_ = s.stream.CloseSend()
}

// answered returns the time at which the message was sent that belongs to the answer with
// this number, from 0. If only one end sends many messages, it returns before, the time of
// the previous answer.
func (s *sender) answered(number int, before time.Duration) time.Duration {
	if s.request.Stream != (service.Stream{Client: true, Server: true}) || number >= len(s.sentAt) {
		return before
	}
	if at := time.Duration(s.sentAt[number].Load()); at > 0 {
		return at
	}
	return before // the server sent it without being asked
}
