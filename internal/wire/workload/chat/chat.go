// Package chat is the workload `chat`: messages and their answers on an open bidirectional stream.
//
// A call is one message and its answer. The load engine schedules messages as it schedules calls.
// So in an open loop a message's latency begins at its intended instant, even if the previous
// message is late. With empty messages, a call is a ping over a stream.
package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/chat/chatpb"
)

// Workload is chat. The zero value is ready.
type Workload struct{}

var _ workload.Streaming = Workload{}

// Info describes the workload. The scenario's sizes are message sizes.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name: "chat", Summary: "a message and its answer on a bidirectional stream; each client keeps its stream open",
		Options: workload.StallOptions(), Sized: true, Operations: len(chatpb.ChatService_ServiceDesc.Streams), Sweep: true,
	}
}

// Check refuses sizes that a stack cannot carry.
func (w Workload) Check(p workload.Parameters) error {
	return p.Check(w, workload.MaxBytes, func(o *scenario.Options) { workload.ReadStall(o) })
}

// Streams returns the description of the only stream.
func (Workload) Streams(workload.Parameters) []*grpc.StreamDesc {
	return []*grpc.StreamDesc{&chatpb.ChatService_ServiceDesc.Streams[0]}
}

// Register implements workload.Workload.
func (w Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	chatpb.RegisterChatServiceServer(to, &handler{stall: workload.ReadStall(workload.ReadOptions(w, p))})
}

// NewCaller makes one client.
func (Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	return &caller{
		stub:    chatpb.NewChatServiceClient(conn),
		fresh:   job.NewLastBytesChanger(),
		message: chatpb.Message{Data: job.RandomPayload(), AnswerBytes: job.RequestedAnswerBytes()},
	}
}

type handler struct {
	chatpb.UnimplementedChatServiceServer
	stall *workload.Stall
}

// Chat answers each message until the client closes the stream.
func (h *handler) Chat(stream grpc.BidiStreamingServer[chatpb.Message, chatpb.Message]) error {
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := h.stall.DelayIfDue(stream.Context()); err != nil {
			return err
		}
		data, err := workload.Answer(message.Number, message.Data, message.AnswerBytes)
		if err != nil {
			return err
		}
		message.Data, message.AnswerBytes = data, nil
		if err := stream.Send(message); err != nil {
			return err
		}
	}
}

// A caller is one client with one stream. The stream lives until a message fails or the context of
// the first call ends.
type caller struct {
	stub    chatpb.ChatServiceClient
	stream  grpc.BidiStreamingClient[chatpb.Message, chatpb.Message]
	leave   context.CancelFunc // ends the stream
	fresh   *workload.LastBytesChanger
	message chatpb.Message
	answer  *chatpb.Message // the last call's answer
}

// Call sends a message and waits for the answer. After a failure it opens a new stream.
func (c *caller) Call(ctx context.Context) error {
	err := c.exchangeMessage(ctx)
	if err != nil && c.stream != nil {
		c.leave()
		c.stream = nil
	}
	return err
}

func (c *caller) exchangeMessage(ctx context.Context) error {
	if c.stream == nil {
		ctx, leave := context.WithCancel(ctx)
		stream, err := c.stub.Chat(ctx)
		if err != nil {
			leave()
			return err
		}
		c.stream, c.leave = stream, leave
	}
	c.message.Number++
	c.fresh.ChangeLastBytes(c.message.Data)
	err := c.stream.Send(&c.message)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// If SendMsg returned io.EOF, Recv returns the stream's error.
	c.answer, err = c.stream.Recv()
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Unavailable, "chat: the server ended the stream")
	}
	return err
}

// Check checks that the answer belongs to the last message.
func (c *caller) Check() error {
	want, _ := workload.Answer(c.message.Number, c.message.Data, c.message.AnswerBytes) // Check has checked the size
	switch got := c.answer; {
	case got.GetNumber() != c.message.Number:
		return fmt.Errorf("chat: sent message %d, got the answer to message %d", c.message.Number, got.GetNumber())
	case !bytes.Equal(got.Data, want):
		return fmt.Errorf("chat: message %d was answered with %d bytes that differ from the %d bytes wanted", c.message.Number, len(got.Data), len(want))
	}
	return nil
}
