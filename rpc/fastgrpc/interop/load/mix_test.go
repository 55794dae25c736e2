package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// service answers with content that says which call it belongs to, and checks the content
// of requests.
type service struct {
	testgrpc.UnimplementedTestServiceServer
}

// content is size bytes that repeat an id.
func content(id uint64, size int) *testgrpc.Payload {
	return &testgrpc.Payload{Body: bytes.Repeat(binary.BigEndian.AppendUint64(nil, id), size/8+1)[:size]}
}

func isContent(p *testgrpc.Payload, id uint64, size int) bool {
	return bytes.Equal(p.GetBody(), content(id, size).Body)
}

// EmptyCall waits until its caller gives up.
func (service) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// UnaryCall answers with the request's content.
func (service) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if code := in.GetResponseStatus().GetCode(); code != 0 {
		return nil, status.Error(codes.Code(code), in.GetResponseStatus().GetMessage())
	}
	return &testgrpc.SimpleResponse{Payload: in.GetPayload()}, nil
}

// StreamingInputCall wants each message to have the content of its number.
func (service) StreamingInputCall(s testgrpc.TestService_StreamingInputCallServer) error {
	total := 0
	for i := uint64(0); ; i++ {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: int32(total)})
		}
		if err != nil {
			return err
		}
		size := len(in.GetPayload().GetBody())
		if !isContent(in.GetPayload(), i, size) {
			return status.Errorf(codes.DataLoss, "message %d has another content", i)
		}
		total += size
	}
}

// StreamingOutputCall gives each message the content of its number.
func (service) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, s testgrpc.TestService_StreamingOutputCallServer) error {
	for i, p := range in.GetResponseParameters() {
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{Payload: content(uint64(i), int(p.GetSize()))}); err != nil {
			return err
		}
	}
	return nil
}

// FullDuplexCall answers each message, or with a status.
func (service) FullDuplexCall(s testgrpc.TestService_FullDuplexCallServer) error {
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if code := in.GetResponseStatus().GetCode(); code != 0 {
			return status.Error(codes.Code(code), in.GetResponseStatus().GetMessage())
		}
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{Payload: in.GetPayload()}); err != nil {
			return err
		}
	}
}

// errContent is a fault in any situation.
var errContent = errors.New("a response has another content, or came twice, or did not come")

// caller makes calls of all kinds. It is one goroutine's.
type caller struct {
	client testgrpc.TestServiceClient
	random *rand.Rand
	kinds  []kind // that any draws from
	most   int    // bytes of a rare long message; 0: none is longer than usual
}

type kind struct {
	name string
	call func(*caller, context.Context) error
	want codes.Code // what the call ends with
}

// kinds lists the calls that gRPC can make. creditrpc can make all but the last.
var kinds = []kind{
	{"unary", (*caller).unary, codes.OK},
	{"upload", (*caller).upload, codes.OK},
	{"download", (*caller).download, codes.OK},
	{"slow download", (*caller).slowDownload, codes.OK},
	{"duplex", (*caller).duplex, codes.OK},
	{"unary status", (*caller).unaryStatus, codes.FailedPrecondition},
	{"stream status", (*caller).streamStatus, codes.FailedPrecondition},
	{"deadline", (*caller).deadline, codes.DeadlineExceeded},
	{"stream deadline", (*caller).streamDeadline, codes.DeadlineExceeded},
	{"cancel", (*caller).cancel, codes.Canceled},
	{"stream cancel", (*caller).streamCancel, codes.Canceled},
	{"compressed", (*caller).compressed, codes.OK},
}

// callTimeout bounds a call that hangs, so that the test fails and says which.
const callTimeout = 2 * time.Minute

// any makes a call of a kind drawn by lot. It returns the kind, and an error if the call
// ended otherwise than its kind does; with disturbed, connections may be lost.
func (c *caller) any(ctx context.Context, disturbed bool) (string, error) {
	return c.one(ctx, c.kinds[c.random.IntN(len(c.kinds))], disturbed)
}

func (c *caller) one(ctx context.Context, k kind, disturbed bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := k.call(c, ctx)
	switch code := status.Code(err); {
	case errors.Is(err, errContent), ctx.Err() != nil:
		return k.name, fmt.Errorf("%s: %w", k.name, errors.Join(err, ctx.Err()))
	case code == k.want, disturbed && code == codes.Unavailable:
		return k.name + " " + code.String(), nil
	}
	return k.name, fmt.Errorf("%s: %w, want %v", k.name, err, k.want)
}

// size is mostly small, at times 256 KiB, and seldom as large as allowed.
func (c *caller) size() int {
	if c.most > 0 && c.random.IntN(64) == 0 {
		return c.random.IntN(c.most)
	}
	return c.random.IntN(1 << c.random.IntN(19))
}

func (c *caller) unary(ctx context.Context) error { return c.echo(ctx) }

func (c *caller) compressed(ctx context.Context) error {
	return c.echo(ctx, grpc.UseCompressor(gzip.Name))
}

func (c *caller) echo(ctx context.Context, opts ...grpc.CallOption) error {
	id, size := c.random.Uint64(), c.size()
	out, err := c.client.UnaryCall(ctx, &testgrpc.SimpleRequest{Payload: content(id, size)}, opts...)
	if err == nil && !isContent(out.GetPayload(), id, size) {
		return errContent
	}
	return err
}

func (c *caller) upload(ctx context.Context) error {
	s, err := c.client.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	total := 0
	for i := range c.random.IntN(100) {
		size := c.size()
		total += size
		if err := s.Send(&testgrpc.StreamingInputCallRequest{Payload: content(uint64(i), size)}); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	out, err := s.CloseAndRecv()
	if err == nil && int(out.GetAggregatedPayloadSize()) != total {
		return errContent
	}
	return err
}

func (c *caller) download(ctx context.Context) error     { return c.read(ctx, 100, 0) }
func (c *caller) slowDownload(ctx context.Context) error { return c.read(ctx, 10, time.Millisecond) }

func (c *caller) read(ctx context.Context, most int, pause time.Duration) error {
	in := &testgrpc.StreamingOutputCallRequest{}
	for range c.random.IntN(most) {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: int32(c.size())})
	}
	s, err := c.client.StreamingOutputCall(ctx, in)
	if err != nil {
		return err
	}
	for i, p := range in.ResponseParameters {
		time.Sleep(pause)
		out, err := s.Recv()
		if errors.Is(err, io.EOF) || err == nil && !isContent(out.GetPayload(), uint64(i), int(p.GetSize())) {
			return errContent
		}
		if err != nil {
			return err
		}
	}
	return end(s)
}

// end wants a stream to end well.
func end(s interface {
	Recv() (*testgrpc.StreamingOutputCallResponse, error)
},
) error {
	if _, err := s.Recv(); err == nil {
		return errContent
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (c *caller) duplex(ctx context.Context) error {
	s, err := c.turns(ctx, c.random.IntN(20))
	if err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return end(s)
}

// turns opens a stream and has n messages answered.
func (c *caller) turns(ctx context.Context, n int) (testgrpc.TestService_FullDuplexCallClient, error) {
	s, err := c.client.FullDuplexCall(ctx)
	if err != nil {
		return nil, err
	}
	for range n {
		id, size := c.random.Uint64(), c.size()
		if err := s.Send(&testgrpc.StreamingOutputCallRequest{Payload: content(id, size)}); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		out, err := s.Recv() // it also has the status of a call that has ended
		if errors.Is(err, io.EOF) || err == nil && !isContent(out.GetPayload(), id, size) {
			return nil, errContent
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

var failedStatus = &testgrpc.EchoStatus{Code: int32(codes.FailedPrecondition), Message: "as asked for"}

func (c *caller) unaryStatus(ctx context.Context) error {
	_, err := c.client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseStatus: failedStatus})
	return asAsked(err)
}

func asAsked(err error) error {
	if status.Code(err) == codes.FailedPrecondition && status.Convert(err).Message() != failedStatus.Message {
		return errContent
	}
	return err
}

func (c *caller) streamStatus(ctx context.Context) error {
	s, err := c.turns(ctx, c.random.IntN(3))
	if err != nil {
		return err
	}
	if err := s.Send(&testgrpc.StreamingOutputCallRequest{ResponseStatus: failedStatus}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err = s.Recv(); err == nil || errors.Is(err, io.EOF) {
		return errContent
	}
	return asAsked(err)
}

// soon returns a random duration within which a call may still be under way.
func (c *caller) soon() time.Duration { return time.Duration(c.random.IntN(int(5 * time.Millisecond))) }

func (c *caller) deadline(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.soon())
	defer cancel()
	_, err := c.client.EmptyCall(ctx, &testgrpc.Empty{})
	return err
}

func (c *caller) streamDeadline(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.soon())
	defer cancel()
	s, err := c.turns(ctx, c.random.IntN(3))
	if err != nil {
		return err
	}
	_, err = s.Recv()
	return err
}

func (c *caller) cancel(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(c.soon(), cancel).Stop()
	_, err := c.client.EmptyCall(ctx, &testgrpc.Empty{})
	return err
}

func (c *caller) streamCancel(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.turns(ctx, c.random.IntN(3))
	if err != nil {
		return err
	}
	cancel()
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}
