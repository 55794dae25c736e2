// Package fake is the stack `fake`. It has no wire: the client itself answers calls, and a script
// determines how. Tests check that a trial finds the delay, stall or fault that the variant sets.
// With an empty script a call costs almost nothing, so a trial measures wirelab itself.
//
//  1. The variant's options are a script.
//  2. The client itself answers each call, without the server. The response is the request,
//     after the delay or fault of the script.
//  3. Clients open connections to the server but send nothing on them. So processes, addresses,
//     connection modes and counts work as with any stack.
//
// The package must not know what the messages mean. It cannot answer a method whose response has
// another type than its request.
package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/sockopt"
	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// Stack is the fake stack. The zero value is ready.
type Stack struct{}

var (
	_ stack.Stack           = Stack{}
	_ stack.KindLimiter     = Stack{}
	_ stack.WorkloadLimiter = Stack{}
)

// Info describes the stack. All calls share one client, because its timekeeper must serve them all.
func (Stack) Info() stack.Info {
	return stack.Info{
		Name: "fake", Summary: "no wire: the client answers its own calls, by a script; for testing wirelab",
		Options: options, Connection: scenario.Connection{Mode: scenario.Shared},
	}
}

// NewServer implements stack.Stack. The server never sends anything.
func (Stack) NewServer(v scenario.Variant) (stack.Server, error) {
	if _, err := parseScript(v); err != nil {
		return nil, err
	}
	return &server{}, nil
}

// NewClient opens connections but does not use them. The client answers by the script.
func (Stack) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	s, err := parseScript(v)
	if err != nil {
		return nil, err
	}
	c := newClient(s, target.DialerOrNew())
	if err := c.open(ctx, target); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("fake: %w", err)
	}
	return c, nil
}

var errStreams = fmt.Errorf("fake: this stack answers only unary calls; tcp and grpc have streams: %w", stack.ErrUnsupported)

// CheckKind returns an error for streams, which the stack cannot carry.
func (Stack) CheckKind(_ scenario.Variant, kind stack.Kind) error {
	if kind != stack.Unary {
		return errStreams
	}
	return nil
}

// CheckWorkload returns an error for workloads whose answers have another type than their requests.
func (Stack) CheckWorkload(name string) error {
	if name != "echo" {
		return fmt.Errorf("fake: this stack answers with the request, so it carries only the workload echo: %w", stack.ErrUnsupported)
	}
	return nil
}

var options = []scenario.Option{
	{Key: "delay", Parse: scenario.PositiveTime, Help: "DURATION: each call takes this long, as in delay=5ms"},
	{Key: "parallel", Parse: scenario.Count, Help: "N: at most N calls are delayed at the same time, and further calls wait: so at most N calls end per delay"},
	{Key: "stall", Parse: scenario.PositiveTime, Help: "DURATION: the server answers nothing in the first DURATION of each period, as in stall=100ms"},
	{Key: "every", Default: "1s", Parse: scenario.PositiveTime, Help: "DURATION: the period of the stalls, counted on the machine's monotonic clock"},
	{Key: "fail-every", Parse: scenario.Count, Help: "N: every Nth call fails with Unavailable"},
	{Key: "hang-after", Parse: scenario.Count, Help: "N: the first N calls are answered; later ones end only when their caller gives up"},
	{Key: "corrupt-every", Parse: scenario.Count, Help: "N: in every Nth answer one bit is wrong"},
}

// script says how calls are delayed and how they fail. With the zero value, calls are answered at
// once.
type script struct {
	delay         time.Duration
	parallel      int64
	stall, period time.Duration
	failEvery     int64
	hangAfter     int64
	corruptEvery  int64
}

func parseScript(v scenario.Variant) (script, error) {
	o := stack.ReadOptions(Stack{}, v)
	count := func(key string) int64 { return int64(scenario.Value[int](o, key)) }
	s := script{
		delay: scenario.Value[time.Duration](o, "delay"), parallel: count("parallel"),
		stall: scenario.Value[time.Duration](o, "stall"), period: scenario.Value[time.Duration](o, "every"),
		failEvery: count("fail-every"), hangAfter: count("hang-after"), corruptEvery: count("corrupt-every"),
	}
	switch {
	case s.parallel > 0 && s.delay == 0:
		o.Fail(errors.New("parallel=… limits delayed calls, but no delay is set: set delay, or leave parallel out"))
	case s.stall == 0 && o.Has("every"):
		o.Fail(errors.New("every=… is the time between two stalls, but no stall is set: set stall, or leave every out"))
	case s.stall == 0:
		s.period = 0
	case s.stall >= s.period:
		o.Fail(fmt.Errorf("stall=%v must be shorter than every=%v", s.stall, s.period))
	}
	return s, o.Err()
}

// answerTime returns the time of the answer to a call that begins at now. From call to call, the
// result never decreases: the timekeeper relies on this.
func (s script) answerTime(now int64) int64 {
	if s.stall > 0 {
		period := int64(s.period)
		into := (now%period + period) % period // in a synctest bubble, times may be negative
		if into < int64(s.stall) {
			now += int64(s.stall) - into
		}
	}
	return now + int64(s.delay)
}

func (s script) delaysCalls() bool { return s.delay > 0 || s.stall > 0 }

// These methods say whether the script affects call number N, counted from 1.

func (s script) hangsAt(number int64) bool { return s.hangAfter > 0 && number > s.hangAfter }
func (s script) failsAt(number int64) bool { return s.failEvery > 0 && number%s.failEvery == 0 }
func (s script) corruptsAt(number int64) bool {
	return s.corruptEvery > 0 && number%s.corruptEvery == 0
}

// copyRequest copies the request's struct to the response. Both then share memory behind pointers.
// This takes about 20 ns; proto.Merge would take hundreds. The copy is safe: a generated struct's
// internal pointer refers to the type's description, which is the same for both.
func copyRequest(method string, args, reply any) error {
	if reflect.TypeOf(args) != reflect.TypeOf(reply) {
		return status.Errorf(codes.Unimplemented, "fake: the answer is the request, but the response of %s has another type", method)
	}
	reflect.ValueOf(reply).Elem().Set(reflect.ValueOf(args).Elem())
	return nil
}

// corruptAnswer flips the last bit of the first bytes field, in a copy. If there is no such field,
// it empties the answer.
func corruptAnswer(reply any) {
	message := reply.(proto.Message)
	flipped := false
	message.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() != protoreflect.BytesKind || field.Cardinality() == protoreflect.Repeated || len(value.Bytes()) == 0 {
			return true
		}
		data := slices.Clone(value.Bytes())
		data[len(data)-1] ^= 1
		message.ProtoReflect().Set(field, protoreflect.ValueOfBytes(data))
		flipped = true
		return false
	})
	if !flipped {
		proto.Reset(message)
	}
}

// server accepts connections and reads from them until they end.
type server struct {
	stack.Methods // registered, but never called
	listener      net.Listener
	conns         rpccall.Conns[drainedConn]
}

func (s *server) Listen(ctx context.Context, address string) (net.Addr, error) {
	err := s.Err()
	if err == nil {
		s.listener, err = sockopt.Listen(ctx, "tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("fake server: %w", err)
	}
	return s.listener.Addr(), nil
}

func (s *server) Serve() error {
	err := rpccall.Accept(s.listener, nil, func(conn net.Conn) {
		if !s.conns.Add(drainedConn{conn, s}) {
			_ = conn.Close()
		}
	})
	if !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("fake server: %w", err)
	}
	return nil
}

// Shutdown does the same as Close, because no calls run in the server.
func (s *server) Shutdown(context.Context) error { return s.Close() }

func (s *server) Close() error {
	s.conns.Mu.Lock()
	s.conns.Closed = true
	for conn := range s.conns.Open {
		_ = conn.Close()
	}
	s.conns.Mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.conns.Running.Wait()
	return nil
}

// drainedConn is a connection whose bytes are read and ignored until one end closes it.
type drainedConn struct {
	net.Conn
	server *server
}

func (d drainedConn) Start(running *sync.WaitGroup) {
	running.Go(func() {
		_, _ = io.Copy(io.Discard, d)
		_ = d.Close()
		d.server.conns.Remove(d)
	})
}
