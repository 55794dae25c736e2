package chanpool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// service implements the service that the tests call.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	calls atomic.Int64
}

func (s *service) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	s.calls.Add(1)
	return &testgrpc.SimpleResponse{Payload: in.GetPayload()}, nil
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: in.GetPayload()}); err != nil {
			return err
		}
	}
}

func (s *service) StreamingInputCall(stream grpc.ClientStreamingServer[testgrpc.StreamingInputCallRequest, testgrpc.StreamingInputCallResponse]) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testgrpc.StreamingInputCallResponse{})
		} else if err != nil {
			return err
		}
	}
}

// serve starts grpc-go's server, and returns how to dial it.
func serve(t testing.TB, impl testgrpc.TestServiceServer) func(context.Context) (Channel, error) {
	t.Helper()
	address := listen(t, impl)
	return func(context.Context) (Channel, error) {
		return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
}

func listen(t testing.TB, impl testgrpc.TestServiceServer) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, impl)
	go func() { _ = s.Serve(lis) }() // ends with Stop
	t.Cleanup(s.Stop)
	return lis.Addr().String()
}

func open(t testing.TB, dial func(context.Context) (Channel, error), opts ...Option) *Pool {
	t.Helper()
	p, err := New(dial, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// fake is a channel whose calls take what its world says.
type fake struct {
	takes  func() time.Duration
	err    error
	busy   atomic.Int64
	calls  atomic.Int64
	closed atomic.Bool
	lost   *atomic.Int64 // calls that were under way when it was closed
}

func (f *fake) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	if f.closed.Load() {
		f.lost.Add(1)
	}
	f.calls.Add(1)
	f.busy.Add(1)
	defer f.busy.Add(-1)
	if f.takes != nil {
		time.Sleep(f.takes())
	}
	if f.closed.Load() {
		f.lost.Add(1)
	}
	return f.err
}

func (f *fake) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams here")
}

func (f *fake) Close() error {
	f.closed.Store(true)
	return nil
}

// TestAPoolFindsItsSize drives pools through virtual time: channels that carry four calls at a
// time, then a load that one carries. It counts calls that met a closed channel.
func TestAPoolFindsItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		var channels []*fake
		var log bytes.Buffer
		p, err := New(func(context.Context) (Channel, error) {
			f := &fake{lost: &lost}
			f.takes = func() time.Duration { return 5 * time.Millisecond * time.Duration(1+(f.busy.Load()-1)/4) }
			channels = append(channels, f)
			return f, nil
		}, Logger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		load := func(callers int, d time.Duration) {
			var all sync.WaitGroup
			end := time.Now().Add(d)
			for range callers {
				all.Go(func() {
					for time.Now().Before(end) {
						if err := p.Invoke(t.Context(), "/s/m", nil, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		}
		load(16, 30*time.Second)
		grown := p.State()
		load(1, 2*time.Minute)
		shrunk := p.State()
		if grown.Size < 4 || grown.Size > 6 || len(grown.Decisions) == 0 {
			t.Errorf("with 16 callers, four to a channel: %+v", grown)
		}
		if shrunk.Size != 1 || shrunk.InFlight != 0 {
			t.Errorf("with one caller: %+v", shrunk)
		}
		if !strings.Contains(log.String(), "calls were faster with") {
			t.Errorf("the log has no decision: %s", log.String())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for i, f := range channels {
			if !f.closed.Load() {
				t.Errorf("channel %d of %d was left open", i, len(channels))
			}
		}
		if n := lost.Load(); n > 0 {
			t.Errorf("%d calls met a closed channel", n)
		}
	})
}

// A channel that fails at once must not get all calls because it is always free.
func TestBrokenChannelsAreAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var channels []*fake
		p, err := New(func(context.Context) (Channel, error) {
			f := &fake{takes: func() time.Duration { return time.Millisecond }, lost: new(atomic.Int64)}
			if len(channels) == 0 {
				f.err = status.Error(codes.Unavailable, "broken")
				f.takes = nil
			}
			channels = append(channels, f)
			return f, nil
		}, Fixed(3))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 1000 {
					_ = p.Invoke(t.Context(), "/s/m", nil, nil)
				}
			})
		}
		all.Wait()
		if n := channels[0].calls.Load(); n > 500 {
			t.Errorf("the broken channel got %d of 10000 calls", n)
		}
		_ = p.Close()
	})
}

// callFromTen makes 1,000 calls from each of ten callers, so that the pool wants to grow.
func callFromTen(t *testing.T, p *Pool) {
	t.Helper()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 1000 {
				if err := p.Invoke(t.Context(), "/s/m", nil, nil); err != nil {
					t.Errorf("a call failed for a dial: %v", err)
				}
			}
		})
	}
	all.Wait()
}

func TestDialsThatFail(t *testing.T) {
	if _, err := New(func(context.Context) (Channel, error) { return nil, io.ErrNoProgress }); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("the first dial failed: %v", err)
	}
	working := func(context.Context) (Channel, error) { return &fake{lost: new(atomic.Int64)}, nil }
	for want, made := range map[string]func() (*Pool, error){
		"Min(3), Max(2): want Min of at least 1":     func() (*Pool, error) { return New(working, Min(3), Max(2)) },
		"Epoch(-1ns): want more than 0":              func() (*Pool, error) { return New(working, Epoch(-1)) },
		"New(nil): want a function that opens":       func() (*Pool, error) { return New(nil) },
		"opens channels returned none, and no error": func() (*Pool, error) { return New(func(context.Context) (Channel, error) { return nil, nil }) },
		"Min(1), Max(0): want Min of at least 1":     func() (*Pool, error) { return New(working, Max(0)) },
	} {
		if _, err := made(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		p, err := New(func(context.Context) (Channel, error) {
			if dials++; dials > 1 {
				return nil, io.ErrNoProgress
			}
			return &fake{takes: func() time.Duration { return time.Millisecond }, lost: new(atomic.Int64)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		callFromTen(t, p)
		if s := p.State(); dials < 2 || s.Size != 1 || !strings.Contains(s.Decisions[0].Why, io.ErrNoProgress.Error()) {
			t.Errorf("%d dials, %+v", dials, s)
		}
		_ = p.Close()
	})
}

// A dial that never returns delays no call and not Close. If it returns after all, its channel is closed.
func TestCloseDoesNotWaitForDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &fake{lost: new(atomic.Int64)}
		stuck, ended := make(chan struct{}), make(chan struct{})
		dials := 0
		p, err := New(func(ctx context.Context) (Channel, error) {
			if dials++; dials > 1 {
				go func() { <-ctx.Done(); close(ended) }()
				<-stuck
				return late, nil
			}
			return &fake{takes: func() time.Duration { return time.Millisecond }, lost: new(atomic.Int64)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		callFromTen(t, p)
		before := time.Now()
		if err := p.Close(); err != nil || time.Since(before) > 0 || dials != 2 {
			t.Errorf("Close took %v with %d dials: %v", time.Since(before), dials, err)
		}
		<-ended
		close(stuck)
		synctest.Wait()
		if !late.closed.Load() {
			t.Error("the channel that came late was left open")
		}
	})
}

// Calls one after another go to all channels.
func TestEqualChannelsGetCallsInTurn(t *testing.T) {
	for _, size := range []int{2, 3, 4, 8} {
		p := open(t, func(context.Context) (Channel, error) { return &fake{lost: new(atomic.Int64)}, nil }, Fixed(size))
		for range 100 * size {
			if err := p.Invoke(t.Context(), "/s/m", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i, c := range p.State().Channels {
			if size <= fewMembers && c.Calls != 100 || c.Calls < 50 {
				t.Errorf("channel %d of %d got %d of %d calls", i, size, c.Calls, 100*size)
			}
		}
	}
}

// TestStreamsCount checks that a stream is a call of its channel until it ends, in each way.
func TestStreamsCount(t *testing.T) {
	p := open(t, serve(t, new(service)), Fixed(2))
	client := testgrpc.NewTestServiceClient(p)
	inFlight := func(want int) {
		t.Helper()
		for range 1000 {
			if p.State().InFlight == want {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("%d in flight, want %d", p.State().InFlight, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a, err := client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inFlight(2)
	for _, c := range p.State().Channels {
		if c.InFlight != 1 || c.Connectivity == "" {
			t.Errorf("the streams are not shared out: %+v", c)
		}
	}
	if err := a.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := a.Recv(); err != nil {
		t.Error(err)
	}
	cancel()
	inFlight(1)
	_ = b.CloseSend()
	if _, err := b.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	inFlight(0)
	one, err := client.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inFlight(1)
	if _, err := one.CloseAndRecv(); err != nil {
		t.Error(err)
	}
	inFlight(0)
}

func TestCallsAfterClose(t *testing.T) {
	p := open(t, serve(t, new(service)))
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	client := testgrpc.NewTestServiceClient(p)
	if _, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := client.FullDuplexCall(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := p.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
}

// TestChaos makes calls of all kinds while the pool grows and shrinks at random. None may be
// lost, none made twice, and nothing may be left.
func TestChaos(t *testing.T) {
	before := runtime.NumGoroutine()
	impl := new(service)
	dial := serve(t, impl)
	p := open(t, dial, Max(8), Epoch(time.Millisecond))
	client := testgrpc.NewTestServiceClient(p)
	var asked atomic.Int64
	stop := make(chan struct{})
	var resizer sync.WaitGroup
	resizer.Go(func() { // what trials do, only faster
		for n := 1; ; n = n%8 + 1 {
			select {
			case <-stop:
				return
			default:
			}
			p.mu.Lock()
			p.decider.trial = nil
			p.decider.size = n
			if !p.dialing && !p.closed {
				p.resize()
				if !p.dialing {
					p.setInUse(n)
				}
			}
			p.mu.Unlock()
			runtime.Gosched()
		}
	})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for n := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				switch (i + n) % 4 {
				case 0:
					s, err := client.FullDuplexCall(ctx)
					if err != nil {
						t.Errorf("a stream: %v", err)
						break
					}
					if n%8 == 0 { // given up
						break
					}
					if err := s.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
						t.Errorf("send: %v", err)
					}
					if _, err := s.Recv(); err != nil {
						t.Errorf("receive: %v", err)
					}
				default:
					asked.Add(1)
					if _, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{}); err != nil {
						t.Errorf("a call: %v", err)
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	close(stop)
	resizer.Wait()
	if got := impl.calls.Load(); got != asked.Load() {
		t.Errorf("%d calls were asked for, and %d made", asked.Load(), got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if s := p.State(); s.InFlight != 0 {
		t.Errorf("after Close: %+v", s)
	}
	const others = 20 // the server's, whose connections end a little later
	for range 1000 {
		if runtime.NumGoroutine() <= before+others {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}

// What the pool adds to a call is no memory.
func TestCallsAllocateNothingMore(t *testing.T) {
	p := open(t, func(context.Context) (Channel, error) { return &fake{lost: new(atomic.Int64)}, nil })
	got := testing.AllocsPerRun(1000, func() {
		if err := p.Invoke(context.Background(), "/s/m", nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	if got >= 1 { // epochs allocate now and then
		t.Errorf("%g allocations a call", got)
	}
}
