package stacktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/grpcstack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// TestSuiteFindsFaults breaks a good stack in one place at a time. The check that is
// there for it must fail, and must pass on the unbroken stack.
func TestSuiteFindsFaults(t *testing.T) {
	for _, broken := range []struct {
		fault string
		check string
		with  faulty
		says  string
	}{
		{"the deadline is ignored", "patience/deadline", faulty{invoke: ignoreDeadline}, "want DeadlineExceeded"},
		{"a late answer goes to the next call", "patience/late-answer", faulty{invoke: readOnWhereLeft()}, `was answered with "late"`},
		{"two answers are swapped", "unary/concurrent", faulty{invoke: answerTheCallBefore()}, "was answered with"},
		{"an answer is merged", "unary/answer-replaces", faulty{invoke: mergeAnswer}, "merged"},
		{"an answer stays in a reused buffer", "unary/concurrent", faulty{invoke: reuseBuffer()}, "was answered with"},
		{"the message limit is not kept", "unary/oversize-request", faulty{invoke: swallowOversize}, "want ResourceExhausted"},
		{"every error becomes Unknown", "status/codes", faulty{invoke: forgetCode}, "arrived as Unknown"},
		{"details are dropped", "status/details", faulty{invoke: dropDetails}, "the status arrived as"},
		{"request metadata is dropped", "metadata/request", faulty{invoke: dropRequestMetadata}, "x-multi arrived as []"},
		{"trailers are dropped", "metadata/response", faulty{invoke: dropTrailer}, "t-single arrived as []"},
		{"a stream ends well though its handler failed", "stream/early-end", faulty{hideStreamErrors: true}, "aborts ended with"},
		{"a failed call kills the client", "peer/restarts", faulty{invoke: giveUpForGood()}, "did not recover"},
		{"connections are counted as asked", "life/connections", faulty{miscount: true}, "the client counts"},
		{"Close leaves a goroutine", "unary/sizes", faulty{leak: true}, "goroutines behind"},
		{"Serve fails at the end", "life/close", faulty{serveFails: true}, "Serve returned"},
		{"mistakes of registration are swallowed", "life/registration", faulty{registerNothing: true}, "Listen accepted"},
	} {
		t.Run(broken.fault, func(t *testing.T) {
			t.Parallel()
			if failures := record(t, broken.check, faulty{}); len(failures) > 0 {
				t.Fatalf("the unbroken stack fails %s: %v", broken.check, failures)
			}
			failures := record(t, broken.check, broken.with)
			if !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, broken.says) }) {
				t.Errorf("%s does not see it; its failures: %q", broken.check, failures)
			}
		})
	}
}

// TestSuiteRefusesWronglyDeclaredLacks claims abilities that are there to be missing.
func TestSuiteRefusesWronglyDeclaredLacks(t *testing.T) {
	for ability, name := range map[Ability]string{
		RequestMetadata:  "metadata/request",
		ResponseMetadata: "metadata/response",
		Deadlines:        "patience/deadline-on-the-wire",
	} {
		r := &recorder{TB: t}
		r.run(func() {
			checkNamed(t, name)(r, Subject{
				Stack: faulty{}, Variant: scenario.Variant{Stack: "grpc"}, Lacks: map[Ability]string{ability: "so it says"},
			})
		})
		if len(r.failures) == 0 {
			t.Errorf("%s passes a stack that has %s and denies it", name, ability)
		}
	}
}

// record runs one check on a stack and returns what it found.
func record(t *testing.T, name string, s stack.Stack) []string {
	t.Helper()
	r := &recorder{TB: t, known: !reflect.ValueOf(s).IsZero()}
	r.run(func() {
		runGuarded(r, Subject{Stack: s, Variant: scenario.Variant{Stack: "grpc"}}, check{name, checkNamed(t, name)})
	})
	return r.failures
}

func checkNamed(t *testing.T, name string) func(testing.TB, Subject) {
	t.Helper()
	all := checks()
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no check %s", name)
	}
	return all[i].run
}

// recorder is a testing.TB that keeps failures instead of failing.
type recorder struct {
	testing.TB
	known    bool // that the stack is broken: what never comes need not be waited for
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) patience() time.Duration {
	if r.known {
		return time.Second
	}
	return maxWait
}

// run ends when f returns or fails for good, and its clean-ups have run.
func (r *recorder) run(f func()) {
	var done sync.WaitGroup
	done.Go(func() {
		defer func() {
			for _, cleanup := range slices.Backward(r.cleanups) {
				cleanup()
			}
		}()
		f()
	})
	done.Wait()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// grpcGo is the part of grpc-go's stack that is never broken.
type grpcGo struct{}

func (grpcGo) Info() stack.Info { return grpcstack.Stack.Info() }

func (grpcGo) NewServer(v scenario.Variant) (stack.Server, error) {
	return grpcstack.Stack.NewServer(v)
}

// faulty is grpc-go with one thing broken.
type faulty struct {
	grpcGo
	invoke                                                        invoker
	miscount, leak, serveFails, registerNothing, hideStreamErrors bool
}

// call is one Invoke on its way to the good client.
type call struct {
	ctx         context.Context
	method      string
	args, reply any
	opts        []grpc.CallOption
}

type invoker func(stack.Client, call) error

func (c call) on(client stack.Client) error {
	return client.Invoke(c.ctx, c.method, c.args, c.reply, c.opts...)
}

func (f faulty) NewServer(v scenario.Variant) (stack.Server, error) {
	server, err := grpcstack.Stack.NewServer(v)
	return faultyServer{server, f}, err
}

func (f faulty) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	client, err := grpcstack.Stack.NewClient(ctx, v, target)
	if err != nil {
		return nil, err
	}
	for range 20 {
		if f.miscount && target.Dialer != nil {
			target.Dialer.Opened()
		}
	}
	return faultyClient{client, f}, nil
}

type faultyServer struct {
	stack.Server
	fault faulty
}

func (s faultyServer) RegisterService(desc *grpc.ServiceDesc, service any) {
	if !s.fault.registerNothing {
		s.Server.RegisterService(desc, service)
	}
}

func (s faultyServer) Serve() error {
	err := s.Server.Serve()
	if s.fault.serveFails {
		return errors.New("use of closed network connection")
	}
	return err
}

type faultyClient struct {
	stack.Client
	fault faulty
}

func (c faultyClient) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	theCall := call{ctx, method, args, reply, opts}
	if c.fault.invoke == nil {
		return theCall.on(c.Client)
	}
	return c.fault.invoke(c.Client, theCall)
}

func (c faultyClient) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.Client.NewStream(ctx, desc, method, opts...)
	if err == nil && c.fault.hideStreamErrors {
		stream = cheerful{stream}
	}
	return stream, err
}

func (c faultyClient) Close() error {
	if c.fault.leak {
		go func() { time.Sleep(2 * maxWait) }()
	}
	return c.Client.Close()
}

type cheerful struct{ grpc.ClientStream }

func (c cheerful) RecvMsg(m any) error {
	err := c.ClientStream.RecvMsg(m)
	if err != nil {
		return io.EOF
	}
	return nil
}

func ignoreDeadline(client stack.Client, c call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Second)
	defer cancel()
	c.ctx = ctx
	if err := c.on(client); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// readOnWhereLeft gives a call the answer that the one before it did not wait for.
func readOnWhereLeft() invoker {
	type answer struct {
		reply *testpb.TestResponse
		err   error
	}
	var left atomic.Pointer[chan answer]
	return func(client stack.Client, c call) error {
		mine := make(chan answer, 1)
		before := left.Load()
		if before == nil {
			before = &mine
			theirs := call{context.WithoutCancel(c.ctx), c.method, c.args, &testpb.TestResponse{}, nil}
			go func() { mine <- answer{theirs.reply.(*testpb.TestResponse), theirs.on(client)} }()
		}
		select {
		case got := <-*before:
			left.Store(nil)
			proto.Merge(c.reply.(proto.Message), got.reply)
			return got.err
		case <-c.ctx.Done():
			left.Store(before)
			return status.FromContextError(c.ctx.Err()).Err()
		}
	}
}

func answerTheCallBefore() invoker {
	var mu sync.Mutex
	var before proto.Message = &testpb.TestResponse{}
	return func(client stack.Client, c call) error {
		mu.Lock()
		defer mu.Unlock()
		mine := &testpb.TestResponse{}
		theirs := c.reply.(*testpb.TestResponse)
		c.reply = mine
		err := c.on(client)
		proto.Merge(theirs, before)
		before = mine
		return err
	}
}

func mergeAnswer(client stack.Client, c call) error {
	whole := c.reply.(*testpb.TestResponse)
	part := &testpb.TestResponse{}
	c.reply = part
	err := c.on(client)
	proto.Merge(whole, part)
	return err
}

func reuseBuffer() invoker {
	var mu sync.Mutex
	buffer := make([]byte, 0, 64<<10)
	return func(client stack.Client, c call) error {
		err := c.on(client)
		mu.Lock()
		defer mu.Unlock()
		if out := c.reply.(*testpb.TestResponse); len(out.Body) < cap(buffer) {
			out.Body = append(buffer, out.Body...)
		}
		return err
	}
}

func swallowOversize(client stack.Client, c call) error {
	if proto.Size(c.args.(proto.Message)) > stack.MaxMessageBytes {
		return nil
	}
	return c.on(client)
}

func forgetCode(client stack.Client, c call) error {
	if err := c.on(client); err != nil {
		return status.Error(codes.Unknown, status.Convert(err).Message())
	}
	return nil
}

func dropDetails(client stack.Client, c call) error {
	err := c.on(client)
	return status.Error(status.Code(err), status.Convert(err).Message())
}

func dropRequestMetadata(client stack.Client, c call) error {
	c.ctx = metadata.NewOutgoingContext(c.ctx, nil)
	return c.on(client)
}

func dropTrailer(client stack.Client, c call) error {
	c.opts = slices.DeleteFunc(c.opts, func(o grpc.CallOption) bool {
		_, is := o.(grpc.TrailerCallOption)
		return is
	})
	return c.on(client)
}

func giveUpForGood() invoker {
	var mu sync.Mutex
	var dead error
	return func(client stack.Client, c call) error {
		mu.Lock()
		defer mu.Unlock()
		if dead == nil {
			dead = c.on(client)
		}
		return dead
	}
}
