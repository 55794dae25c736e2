package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// load is calls of many callers over one connection.
type load struct {
	Callers, Calls int    // of each caller; on a stream, its messages
	Up, Down       int    // bytes of a request and of an answer
	Kind           string // unary, upload or download
}

// inFlight returns the most content bytes that are under way at once.
func (l load) inFlight() int {
	if l.Kind == unary {
		return l.Callers * max(l.Up, l.Down)
	}
	return l.Callers * l.Calls * max(l.Up, l.Down)
}

const (
	unary    = "unary"
	upload   = "upload"
	download = "download"
)

// A result holds the measurements of a load.
type result struct {
	Took       time.Duration
	P99        time.Duration // of calls, or of whole streams
	Failed     int
	FirstError string
	CPU        time.Duration // of the client
	PeakRSS    uint64        // of the client
}

// runTimeout bounds a run that hangs, on a machine however busy.
const runTimeout = 5 * time.Minute

// run makes the calls of an order over a connection of its own.
func run(o *order) (r result, err error) {
	c, err := newClient(o.Address, o.Settings)
	if err != nil {
		return r, err
	}
	defer func() { _ = c.Close() }()
	stub := testgrpc.NewTestServiceClient(c)
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	if _, err := stub.EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
		return r, fmt.Errorf("first call: %w", err)
	}
	settle()
	var mu sync.Mutex
	var took []time.Duration
	request := &testgrpc.SimpleRequest{ResponseSize: int32(o.Load.Down), Payload: &testgrpc.Payload{Body: make([]byte, o.Load.Up)}}
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if r.Failed++; r.FirstError == "" {
			r.FirstError = err.Error()
		}
	}
	var callers sync.WaitGroup
	cpu, began := cpuTime(), time.Now()
	for range o.Load.Callers {
		callers.Go(func() {
			calls := o.Load.Calls
			if o.Load.Kind != unary {
				calls = 1
			}
			own := make([]time.Duration, 0, calls)
			for range calls {
				start := time.Now()
				if err := one(ctx, stub, &o.Load, request); err != nil {
					fail(err)
					continue
				}
				own = append(own, time.Since(start))
			}
			mu.Lock()
			took = append(took, own...)
			mu.Unlock()
		})
	}
	callers.Wait()
	r.Took, r.CPU, r.PeakRSS = time.Since(began), cpuTime()-cpu, peakRSS()
	if slices.Sort(took); len(took) > 0 {
		r.P99 = took[len(took)*99/100]
	}
	return r, nil
}

func one(ctx context.Context, stub testgrpc.TestServiceClient, l *load, request *testgrpc.SimpleRequest) error {
	switch l.Kind {
	case upload:
		s, err := stub.StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		message := &testgrpc.StreamingInputCallRequest{Payload: request.Payload}
		for range l.Calls {
			if err := s.Send(message); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		out, err := s.CloseAndRecv()
		if err == nil && int(out.AggregatedPayloadSize) != l.Calls*l.Up {
			return fmt.Errorf("the server got %d of %d bytes", out.AggregatedPayloadSize, l.Calls*l.Up)
		}
		return err
	case download:
		in := &testgrpc.StreamingOutputCallRequest{}
		for range l.Calls {
			in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: int32(l.Down)})
		}
		s, err := stub.StreamingOutputCall(ctx, in)
		if err != nil {
			return err
		}
		for n := 0; ; n++ {
			out, err := s.Recv()
			switch {
			case errors.Is(err, io.EOF) && n == l.Calls:
				return nil
			case err != nil:
				return err
			case len(out.Payload.Body) != l.Down:
				return fmt.Errorf("a message of %d bytes, want %d", len(out.Payload.Body), l.Down)
			}
		}
	}
	out, err := stub.UnaryCall(ctx, request)
	if err == nil && len(out.GetPayload().GetBody()) != l.Down {
		return fmt.Errorf("an answer of %d bytes, want %d", len(out.GetPayload().GetBody()), l.Down)
	}
	return err
}

// service answers as many bytes as are asked for.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	zeros  []byte        // shared by all answers
	answer int           // bytes of an answer of its own, where none is asked for
	after  time.Duration // that a handler takes
}

func register(r grpc.ServiceRegistrar, o *order) {
	testgrpc.RegisterTestServiceServer(r, &service{zeros: make([]byte, max(o.Load.Down, 1)), answer: o.Answer, after: o.After})
}

func (s *service) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

func (s *service) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if s.after > 0 {
		time.Sleep(s.after) // the work of a handler
	}
	if n := int(in.ResponseSize); n > 0 {
		return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: s.zeros[:n]}}, nil
	}
	return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: make([]byte, s.answer)}}, nil
}

// FullDuplexCall reads nothing.
func (s *service) FullDuplexCall(both testgrpc.TestService_FullDuplexCallServer) error {
	<-both.Context().Done()
	return both.Context().Err()
}

func (s *service) StreamingInputCall(in testgrpc.TestService_StreamingInputCallServer) error {
	total := 0
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return in.SendAndClose(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: int32(total)})
		}
		if err != nil {
			return err
		}
		total += len(m.GetPayload().GetBody())
	}
}

func (s *service) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, out testgrpc.TestService_StreamingOutputCallServer) error {
	for _, p := range in.ResponseParameters {
		if err := out.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: s.zeros[:p.Size]}}); err != nil {
			return err
		}
	}
	return nil
}

// heapObjects returns the bytes of heap objects, live or not yet swept.
func heapObjects() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
