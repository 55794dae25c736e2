package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// scripted is a service whose attempts end as a script says, and then succeed.
type scripted struct {
	testgrpc.UnimplementedTestServiceServer
	mu       sync.Mutex
	script   []string
	attempts []string // what the server saw of each
}

// step returns how an attempt ends: "message" and "header" send that first, pushback=…
// sends that trailer.
func (s *scripted) step(ctx context.Context) (first string, trailer metadata.MD, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	_, deadline := ctx.Deadline()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = append(s.attempts, fmt.Sprint(md[wire.FieldAttempts], deadline))
	if len(s.script) == 0 {
		return "", nil, nil
	}
	word := s.script[0]
	s.script = s.script[1:]
	if pushback, ok := strings.CutPrefix(word, "pushback="); ok {
		trailer = metadata.MD{wire.FieldPushback: strings.Split(pushback, "+")}
		return "", trailer, status.Error(codes.Unavailable, word)
	}
	code := codes.Unavailable
	switch word {
	case "internal":
		code = codes.Internal
	case "wait":
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
	}
	return word, nil, status.Error(code, word)
}

func (s *scripted) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	first, trailer, err := s.step(ctx)
	if first == "header" {
		_ = grpc.SendHeader(ctx, nil)
	}
	_ = grpc.SetTrailer(ctx, trailer)
	return &testgrpc.SimpleResponse{Payload: in.Payload}, err
}

func (s *scripted) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	first, trailer, err := s.step(stream.Context())
	stream.SetTrailer(trailer)
	for n := 1; ; n++ {
		in, readErr := stream.Recv()
		switch {
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return readErr
		case first == "message":
			if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
				return err
			}
			return err
		case err != nil && n == 2: // after two messages
			return err
		case err == nil:
			if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
				return err
			}
		}
	}
}

// threeMessages sends and receives three messages, and returns their sizes.
func threeMessages(ctx context.Context, c testgrpc.TestServiceClient, opts ...grpc.CallOption) (sizes []int, err error) {
	s, err := c.FullDuplexCall(ctx, opts...)
	if err != nil {
		return nil, err
	}
	for i := range 3 {
		if err := s.Send(duplexRequest(1, 1000*i)); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	_ = s.CloseSend()
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return sizes, nil
		}
		if err != nil {
			return sizes, err
		}
		sizes = append(sizes, len(m.GetPayload().GetBody()))
	}
}

// retryConfig is a service config with a retry policy and more of a method's fields.
func retryConfig(more string) string {
	return `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.01s",
		"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}` + more + `}]`
}

// TestRetriesMatchGRPCGo checks that calls are retried as grpc-go does: how often, after
// what, with which header, and what the call returns.
func TestRetriesMatchGRPCGo(t *testing.T) {
	many := slices.Repeat([]string{"unavailable"}, 20)
	throttled := retryConfig("") + `, "retryThrottling": {"maxTokens": 4, "tokenRatio": 0.5}}`
	policy := retryConfig("") + "}"
	unary := func(size int, opts ...grpc.CallOption) func(context.Context, testgrpc.TestServiceClient) (any, error) {
		return func(ctx context.Context, c testgrpc.TestServiceClient) (any, error) {
			reply, err := c.UnaryCall(ctx, request(make([]byte, size)), opts...)
			return len(reply.GetPayload().GetBody()), err
		}
	}
	stream := func(opts ...grpc.CallOption) func(context.Context, testgrpc.TestServiceClient) (any, error) {
		return func(ctx context.Context, c testgrpc.TestServiceClient) (any, error) {
			return threeMessages(ctx, c, opts...)
		}
	}
	cases := map[string]struct {
		setup
		script []string
		call   func(context.Context, testgrpc.TestServiceClient) (any, error)
		calls  int // one more than this
	}{
		"no policy":               {setup{}, many, unary(1), 0},
		"third time":              {setup{config: policy}, []string{"unavailable", "unavailable"}, unary(1), 0},
		"exhausted":               {setup{config: policy}, many, unary(1), 0},
		"not retryable":           {setup{config: policy}, []string{"unavailable", "internal", "unavailable"}, unary(1), 0},
		"after a header":          {setup{config: policy}, []string{"header"}, unary(1), 0},
		"told when":               {setup{config: policy}, []string{"pushback=1", "unavailable"}, unary(1), 0},
		"told not to":             {setup{config: policy}, []string{"pushback=-1"}, unary(1), 0},
		"told in riddles":         {setup{config: policy}, []string{"pushback=soon"}, unary(1), 0},
		"told twice":              {setup{config: policy}, []string{"pushback=1+1"}, unary(1), 0},
		"throttled":               {setup{config: throttled}, many[:8], unary(1), 6},
		"too large":               {setup{config: policy}, many[:1], unary(message.MaxReplayBytes), 0},
		"large and allowed":       {setup{config: policy}, many[:1], unary(message.MaxReplayBytes, grpc.MaxRetryRPCBufferSize(1<<20)), 0},
		"nothing allowed":         {setup{config: policy}, many[:1], unary(1, grpc.MaxRetryRPCBufferSize(0)), 0},
		"disabled":                {setup{config: policy, ours: []ClientOption{WithDisableRetry()}, theirs: []grpc.DialOption{grpc.WithDisableRetry()}}, many, unary(1), 0},
		"fewer attempts":          {setup{config: policy, ours: []ClientOption{WithMaxCallAttempts(2)}, theirs: []grpc.DialOption{grpc.WithMaxCallAttempts(2)}}, many, unary(1), 0},
		"nobody there":            {setup{config: policy, target: "passthrough:///" + newElsewhere(t).nobody}, nil, unary(1), 0},
		"stream, third time":      {setup{config: policy}, []string{"unavailable", "unavailable"}, stream(), 0},
		"stream, exhausted":       {setup{config: policy}, many, stream(), 0},
		"stream, after a message": {setup{config: policy}, []string{"message"}, stream(), 0},
		"stream, told when":       {setup{config: policy}, []string{"pushback=1", "pushback=0"}, stream(), 0},
		"stream, told not to":     {setup{config: policy}, []string{"pushback=-1"}, stream(), 0},
		"stream, too much":        {setup{config: policy}, many[:1], stream(grpc.MaxRetryRPCBufferSize(100)), 0},
		"stream, no policy":       {setup{}, many[:1], stream(), 0},
		"stream, disabled":        {setup{config: policy, ours: []ClientOption{WithDisableRetry()}, theirs: []grpc.DialOption{grpc.WithDisableRetry()}}, many, stream(), 0},
		"stream, nobody there":    {setup{config: policy, target: "passthrough:///" + newElsewhere(t).nobody}, nil, stream(), 0},
		"timeout":                 {setup{config: retryConfig(`, "timeout": "0.05s"`) + "}"}, []string{"wait"}, unary(1), 0},
		"timeout of a stream":     {setup{config: retryConfig(`, "timeout": "0.05s"`) + "}"}, []string{"wait"}, stream(), 0},
		"timeout, retried":        {setup{config: retryConfig(`, "timeout": "60s"`) + "}"}, many[:2], unary(1), 0},
		"no timeout left":         {setup{config: retryConfig(`, "timeout": "0s"`) + "}"}, nil, unary(1), 0},
		"request limit":           {setup{config: retryConfig(`, "maxRequestMessageBytes": 100`) + "}"}, nil, unary(200), 0},
		"response limit":          {setup{config: retryConfig(`, "maxResponseMessageBytes": 100`) + "}"}, nil, unary(200), 0},
		"lesser option":           {setup{config: retryConfig(`, "maxResponseMessageBytes": 1000`) + "}"}, nil, unary(200, grpc.MaxCallRecvMsgSize(100)), 0},
		"greater option":          {setup{config: retryConfig(`, "maxResponseMessageBytes": 100`) + "}"}, nil, unary(200, grpc.MaxCallRecvMsgSize(1000)), 0},
		"limit above the default": {setup{config: retryConfig(`, "maxResponseMessageBytes": 10000000`) + "}"}, nil, unary(4<<20 + 1000), 0},
		"wait for nobody":         {setup{config: retryConfig(`, "waitForReady": true, "timeout": "0.05s"`) + "}", target: "passthrough:///" + newElsewhere(t).nobody}, nil, unary(1), 0},
		"wait for nobody, not":    {setup{config: retryConfig(`, "waitForReady": true, "timeout": "0.05s"`) + "}", target: "passthrough:///" + newElsewhere(t).nobody}, nil, unary(1, grpc.WaitForReady(false)), 0},
		"unknown compressor":      {setup{config: policy}, many, unary(1, grpc.UseCompressor("unheard_of")), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var seen []string
			forBoth(t, func(t *testing.T, dial func(setup) subject) {
				service := &scripted{script: slices.Clone(c.script)}
				address := strings.TrimPrefix(serveTest(t, grpc.NewServer(grpc.MaxRecvMsgSize(10<<20)), service), "passthrough:///")
				s := c.setup
				s.state = resolver.State{Addresses: []resolver.Address{{Addr: address}}}
				client := testgrpc.NewTestServiceClient(dial(s))
				var log []string
				for range c.calls + 1 {
					got, err := c.call(testContext(t), client)
					exhausted := err != nil && strings.Contains(err.Error(), "max retries exhausted: failed after 4 attempts")
					log = append(log, fmt.Sprint(got, status.Code(err), exhausted))
				}
				service.mu.Lock()
				if waits := slices.Contains(c.script, "wait"); !waits || len(service.attempts) > 1 {
					log = append(log, service.attempts...) // a call that waits may end before the server sees it
				}
				service.mu.Unlock()
				if seen == nil {
					seen = log
				} else if !slices.Equal(seen, log) {
					t.Errorf("grpc-go:\n%s\nfastgrpc:\n%s", strings.Join(seen, "\n"), strings.Join(log, "\n"))
				}
			})
		})
	}
}

// attemptLog records the stats of a client's attempts.
type attemptLog struct {
	callLog
	tags int
}

func (l *attemptLog) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tags++
	l.events = append(l.events, fmt.Sprint("tag ", l.tags, info.NameResolutionDelay))
	return metadata.AppendToOutgoingContext(ctx, "echo", fmt.Sprint("tag ", l.tags))
}

func (l *attemptLog) HandleRPC(ctx context.Context, e stats.RPCStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e := e.(type) {
	case *stats.Begin:
		l.events = append(l.events, fmt.Sprint("begin ", e.IsTransparentRetryAttempt))
	case *stats.DelayedPickComplete:
		l.events = append(l.events, "delayed pick")
	case *stats.OutHeader:
		md, _ := metadata.FromOutgoingContext(ctx)
		l.events = append(l.events, fmt.Sprint("header ", md["echo"]))
	case *stats.End:
		l.events = append(l.events, "end") // grpc-go calls an attempt OK whose failure a Send has met
	}
}

// TestAttemptsInStats checks that each attempt is reported, with its own context.
func TestAttemptsInStats(t *testing.T) {
	for name, call := range map[string]func(context.Context, testgrpc.TestServiceClient) error{
		"unary": func(ctx context.Context, c testgrpc.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, request(nil))
			return err
		},
		"stream": func(ctx context.Context, c testgrpc.TestServiceClient) error {
			_, err := threeMessages(ctx, c)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []string
			forBoth(t, func(t *testing.T, dial func(setup) subject) {
				log := new(attemptLog)
				c := dial(setup{
					target: serveTest(t, NewServer(), &scripted{script: []string{"unavailable", "unavailable"}}), config: retryConfig("") + "}",
					ours: []ClientOption{WithStatsHandler(log)}, theirs: []grpc.DialOption{grpc.WithStatsHandler(log)},
				})
				if err := call(testContext(t), testgrpc.NewTestServiceClient(c)); err != nil {
					t.Error(err)
				}
				_ = c.Close()
				// Whether the balancer was faster than the call is chance.
				log.events = slices.DeleteFunc(log.events, func(e string) bool { return e == "delayed pick" })
				if seen == nil {
					seen = log.events
				} else if !slices.Equal(seen, log.events) {
					t.Errorf("grpc-go:\n%s\nfastgrpc:\n%s", strings.Join(seen, "\n"), strings.Join(log.events, "\n"))
				}
			})
		})
	}
}
