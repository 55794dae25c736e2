package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
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
	made *ledger
}

// content is size bytes that repeat an id.
func content(id uint64, size int) *testgrpc.Payload {
	return &testgrpc.Payload{Body: bytes.Repeat(binary.BigEndian.AppendUint64(nil, id), size/8+1)[:size]}
}

func isContent(p *testgrpc.Payload, id uint64, size int) bool {
	body, first := p.GetBody(), content(id, min(size, 8)).Body
	return len(body) == size && bytes.Equal(body[:len(first)], first) && bytes.Equal(body[len(first):], body[:size-len(first)])
}

// EmptyCall waits until its caller gives up.
func (impl service) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	impl.made.count(ctx)
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// UnaryCall answers with the request's content.
func (impl service) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	impl.made.count(ctx)
	if code := in.GetResponseStatus().GetCode(); code != 0 {
		return nil, status.Error(codes.Code(code), in.GetResponseStatus().GetMessage())
	}
	return &testgrpc.SimpleResponse{Payload: in.GetPayload()}, nil
}

// StreamingInputCall wants each message to have the content of its number.
func (impl service) StreamingInputCall(s testgrpc.TestService_StreamingInputCallServer) error {
	impl.made.count(s.Context())
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
func (impl service) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, s testgrpc.TestService_StreamingOutputCallServer) error {
	impl.made.count(s.Context())
	for i, p := range in.GetResponseParameters() {
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{Payload: content(uint64(i), int(p.GetSize()))}); err != nil {
			return err
		}
	}
	return nil
}

// FullDuplexCall answers each message, or with a status.
func (impl service) FullDuplexCall(s testgrpc.TestService_FullDuplexCallServer) error {
	impl.made.count(s.Context())
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
	kinds  []kind  // that any draws from
	most   int     // bytes of the longest message, up to which all magnitudes are as likely; 0: usual sizes
	made   *ledger // nil: calls are not counted
	room   *gate   // nil: calls wait for nothing
	sizes  []int   // of the messages of the call that is being made
}

type kind struct {
	name        string
	call        func(*caller, context.Context) error
	want        codes.Code // what the call ends with
	least, most int        // messages that the caller chooses
}

// kinds lists the calls that gRPC can make. creditrpc can make all but the last.
var kinds = []kind{
	{"unary", (*caller).unary, codes.OK, 1, 1},
	{"upload", (*caller).upload, codes.OK, 0, 99},
	{"download", (*caller).download, codes.OK, 0, 99},
	{"slow download", (*caller).slowDownload, codes.OK, 0, 9},
	{"duplex", (*caller).duplex, codes.OK, 0, 19},
	{"unary status", (*caller).unaryStatus, codes.FailedPrecondition, 0, 0},
	{"stream status", (*caller).streamStatus, codes.FailedPrecondition, 0, 2},
	{"deadline", (*caller).deadline, codes.DeadlineExceeded, 0, 0},
	{"stream deadline", (*caller).streamDeadline, codes.DeadlineExceeded, 0, 2},
	{"cancel", (*caller).cancel, codes.Canceled, 0, 0},
	{"stream cancel", (*caller).streamCancel, codes.Canceled, 0, 2},
	{"compressed", (*caller).compressed, codes.OK, 1, 1},
}

// callTimeout bounds a call that hangs, so that the test fails and says which.
const callTimeout = 2 * time.Minute

// any makes a call of a kind drawn by lot. It returns the kind, and an error if the call
// ended otherwise than its kind does; with disturbed, connections may be lost.
func (c *caller) any(ctx context.Context, disturbed bool) (string, error) {
	return c.one(ctx, c.kinds[c.random.IntN(len(c.kinds))], disturbed)
}

func (c *caller) one(ctx context.Context, k kind, disturbed bool) (string, error) {
	total := c.draw(k)
	leave := c.room.enter(2 * total) // most calls have their messages sent back
	defer leave()
	return c.drawn(ctx, k, disturbed)
}

// drawn makes a call with the sizes that c has.
func (c *caller) drawn(ctx context.Context, k kind, disturbed bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	limited, giveUp := ctx, func() {}
	hurried := disturbed && c.random.IntN(8) == 0
	if hurried {
		limited, giveUp = c.hurry(ctx)
	}
	limited, id := c.made.begin(limited)
	err := k.call(c, limited)
	code := status.Code(err)
	giveUp()
	made := c.made.check(id, code == codes.OK || code == codes.FailedPrecondition)
	switch {
	case errors.Is(err, errContent), ctx.Err() != nil, made != nil:
		return k.name, fmt.Errorf("%s of %d bytes: %w", k.name, c.sizes, errors.Join(err, ctx.Err(), made))
	case code == k.want, disturbed && code == codes.Unavailable, hurried && (code == codes.Canceled || code == codes.DeadlineExceeded):
		return k.name + " " + code.String(), nil
	}
	return k.name, fmt.Errorf("%s of %d bytes: %w, want %v", k.name, c.sizes, err, k.want)
}

// hurry gives a call a deadline, or cancels it, while its messages may still be under way.
func (c *caller) hurry(ctx context.Context) (context.Context, context.CancelFunc) {
	after := time.Duration(c.random.IntN(1 << c.random.IntN(28))) // up to a quarter of a second
	if c.random.IntN(2) == 0 {
		return context.WithTimeout(ctx, after)
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(after, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

const (
	// longest is the longest message of a soak. All ends take it.
	longest = 16 << 20
	// fewBytes bounds the messages of a call together, except the first.
	fewBytes = 2 << 20
)

// draw draws the sizes of a call's messages. It returns their sum.
func (c *caller) draw(k kind) (total int) {
	c.sizes = nil
	for range k.least + c.random.IntN(k.most-k.least+1) {
		size := c.size()
		if len(c.sizes) > 0 && total+size > fewBytes {
			break
		}
		c.sizes = append(c.sizes, size)
		total += size
	}
	return total
}

// size draws a size. Of the usual ones most are short, and at times one has 256 KiB.
func (c *caller) size() int {
	if c.most > 0 {
		return int(math.Exp(c.random.Float64() * math.Log(float64(c.most))))
	}
	return c.random.IntN(1 << c.random.IntN(19))
}

func (c *caller) unary(ctx context.Context) error { return c.echo(ctx) }

func (c *caller) compressed(ctx context.Context) error {
	return c.echo(ctx, grpc.UseCompressor(gzip.Name))
}

func (c *caller) echo(ctx context.Context, opts ...grpc.CallOption) error {
	id, size := c.random.Uint64(), c.sizes[0]
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
	for i, size := range c.sizes {
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

func (c *caller) download(ctx context.Context) error     { return c.read(ctx, 0) }
func (c *caller) slowDownload(ctx context.Context) error { return c.read(ctx, time.Millisecond) }

func (c *caller) read(ctx context.Context, pause time.Duration) error {
	in := &testgrpc.StreamingOutputCallRequest{}
	for _, size := range c.sizes {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: int32(size)})
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
	s, err := c.turns(ctx)
	if err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return end(s)
}

// turns opens a stream and has its messages answered.
func (c *caller) turns(ctx context.Context) (testgrpc.TestService_FullDuplexCallClient, error) {
	s, err := c.client.FullDuplexCall(ctx)
	if err != nil {
		return nil, err
	}
	for _, size := range c.sizes {
		id := c.random.Uint64()
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
	s, err := c.turns(ctx)
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
	s, err := c.turns(ctx)
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
	s, err := c.turns(ctx)
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
