package library

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/rpc/fastgrpc"
)

type grpcClient struct {
	plan    service.Plan
	opener  conn.Opener
	clients conn.RoundRobin[*fastgrpc.Client]
}

func openGRPC(ctx context.Context, plan service.Plan) (service.Client, error) {
	config, err := plan.TLSConfig()
	if err != nil {
		return nil, err
	}
	if plan.Compress {
		registerGzip()
	}
	c := &grpcClient{plan: plan, opener: conn.Opener{
		Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address, TLS: config, Protocol: "h2",
	}}
	if plan.Lifecycle != conn.Kept {
		return c, nil
	}
	c.clients.All = make([]*fastgrpc.Client, max(plan.Connections, 1))
	err = conn.OpenEach(ctx, len(c.clients.All), func(ctx context.Context, i int) (err error) {
		c.clients.All[i], err = c.dial(ctx)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// dial makes a client with one open connection. It opens the connection first, because the library
// would repeat a failed dial.
func (c *grpcClient) dial(ctx context.Context) (*fastgrpc.Client, error) {
	ahead, err := conn.PreopenConns(ctx, 1, c.opener.Open)
	if err != nil {
		return nil, err
	}
	defer ahead.Close()
	client, err := fastgrpc.NewClient("passthrough:///"+c.plan.Address,
		fastgrpc.WithTransportCredentials(c.opener.Credentials()), fastgrpc.WithAuthority(c.plan.Authority),
		fastgrpc.WithUserAgent(service.UserAgent), fastgrpc.WithDisableRetry(), fastgrpc.WithDisableTransparentRetry(), fastgrpc.WithNoProxy(),
		fastgrpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ahead.Dial(ctx) }))
	if err != nil {
		return nil, err
	}
	if err := client.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	c.plan.Dialer.UsedProtocol("h2")
	return client, nil
}

func (c *grpcClient) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	ctx, cancel := withTimeout(ctx, c.plan.Definition, request)
	defer cancel()
	ctx = withMetadata(ctx, request)
	client, done, err := c.acquireClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	*answer = service.Answer{Body: answer.Body[:0], Times: answer.Times[:0]}
	var header, trailer metadata.MD
	options := []grpc.CallOption{grpc.ForceCodecV2(rawCodec{})}
	if c.plan.Compress {
		options = append(options, grpc.UseCompressor(gzipName))
	}
	if c.plan.Keep {
		options = append(options, grpc.Header(&header), grpc.Trailer(&trailer))
	}
	if request.Stream == (service.Stream{}) {
		err = c.callUnary(ctx, client, request, answer, options)
	} else {
		err = callStream(ctx, client, request, answer, options)
	}
	if c.plan.Keep {
		answer.Header = http.Header(metadata.Join(header, trailer))
	}
	return toAnswer(answer, err)
}

func withMetadata(ctx context.Context, request *service.Request) context.Context {
	var sent []string
	for _, f := range request.Header {
		sent = append(sent, f.Name, f.Value)
	}
	return metadata.AppendToOutgoingContext(ctx, sent...)
}

// OpenStream opens a stream on a kept connection. Its messages are of the type []byte. It ends with
// ctx, and has no other timeout.
func (c *grpcClient) OpenStream(ctx context.Context, request *service.Request) (grpc.ClientStream, error) {
	if c.plan.Lifecycle != conn.Kept {
		return nil, errors.New("held streams use kept connections: leave out --conn new")
	}
	return c.clients.Next().NewStream(withMetadata(ctx, request), descriptionOf(request), request.Path, grpc.ForceCodecV2(rawCodec{}))
}

func descriptionOf(request *service.Request) *grpc.StreamDesc {
	return &grpc.StreamDesc{ClientStreams: request.Stream.Client, ServerStreams: request.Stream.Server}
}

// acquireClient returns a client for one call, and a function that releases the client after it.
func (c *grpcClient) acquireClient(ctx context.Context) (*fastgrpc.Client, func(), error) {
	if c.plan.Lifecycle == conn.Kept {
		return c.clients.Next(), func() {}, nil
	}
	own, err := c.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	return own, func() { _ = own.Close() }, nil
}

func (c *grpcClient) callUnary(ctx context.Context, client *fastgrpc.Client, request *service.Request, answer *service.Answer, options []grpc.CallOption) error {
	var message []byte
	if len(request.Messages) > 0 {
		message = request.Messages[0]
	}
	if err := client.Invoke(ctx, request.Path, message, &answer.Body, options...); err != nil {
		return err
	}
	answer.Messages, answer.Bytes = 1, int64(len(answer.Body))
	return nil
}

// toAnswer stores a call's error in the answer if it is a status from the server. It returns any
// other error.
func toAnswer(answer *service.Answer, err error) error {
	if err == nil {
		return nil
	}
	sent, is := status.FromError(err)
	if !is || failure.Of(err) != failure.Application {
		return err
	}
	answer.Status, answer.Message = int(sent.Code()), sent.Message()
	return nil
}

func (c *grpcClient) Close() error {
	for _, client := range c.clients.All {
		if client != nil {
			_ = client.Close() // ignore errors: the call has its result
		}
	}
	return nil
}

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	into := v.(*[]byte)
	*into = (*into)[:0]
	for _, b := range data {
		*into = append(*into, b.ReadOnlyData()...)
	}
	return nil
}

// callStream sends the request's messages while it reads the answer's messages.
func callStream(ctx context.Context, client *fastgrpc.Client, request *service.Request, answer *service.Answer, options []grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the sender after the end of the answer
	kind := descriptionOf(request)
	begin := time.Now()
	s, err := client.NewStream(ctx, kind, request.Path, options...)
	if err != nil {
		return err
	}
	sends := sender{stream: s, request: request, begin: begin, sentAt: make([]atomic.Int64, len(request.Messages))}
	sending := make(chan struct{})
	go func() { // ends after the last message, or with ctx
		defer close(sending)
		sends.sendAll(ctx)
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
		answer.Times = append(answer.Times, now-sends.requestSentAt(answer.Messages, before))
		before = now
		answer.Messages++
		answer.Bytes += int64(len(answer.Body))
		if !kind.ServerStreams {
			return nil
		}
	}
}

// A sender sends the messages of one call, and records when it sent each.
type sender struct {
	stream  grpc.ClientStream
	request *service.Request
	begin   time.Time
	sentAt  []atomic.Int64 // send times in nanoseconds since begin
}

func (s *sender) sendAll(ctx context.Context) {
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
			return // RecvMsg returns the error
		}
	}
	_ = s.stream.CloseSend()
}

// requestSentAt returns the send time of the request message that an answer message belongs to.
// number counts answers from 0. If only one end streams, requestSentAt returns before, the time of
// the previous answer.
func (s *sender) requestSentAt(number int, before time.Duration) time.Duration {
	if s.request.Stream != (service.Stream{Client: true, Server: true}) || number >= len(s.sentAt) {
		return before
	}
	if at := time.Duration(s.sentAt[number].Load()); at > 0 {
		return at
	}
	return before // the server sent more messages than the client
}
