package fastgrpc

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/h2"
)

// meeting is a service whose handlers wait until as many have come as are expected.
type meeting struct {
	echo
	expected int

	mu   sync.Mutex
	here int
	all  chan struct{}
}

func newMeeting(expected int) *meeting {
	return &meeting{expected: expected, all: make(chan struct{})}
}

// arrived returns how many handlers have come.
func (m *meeting) arrived() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.here
}

func (m *meeting) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	m.mu.Lock()
	if m.here++; m.here == m.expected {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
		return m.echo.UnaryCall(ctx, in)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// overPipe starts a server, and a client of it over a pipe, in virtual time.
func overPipe(t *testing.T, s *Server, service testgrpc.TestServiceServer) testgrpc.TestServiceClient {
	testgrpc.RegisterTestServiceServer(s, service)
	c := dialFast(t, "passthrough:///pipe", WithContextDialer(func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _ = s.ServeConn(far) }() // ends with Stop
		return near, nil
	}))
	return testgrpc.NewTestServiceClient(c)
}

// callMeeting makes calls at once and counts how they end.
func callMeeting(ctx context.Context, c testgrpc.TestServiceClient, calls int) map[codes.Code]int {
	var mu sync.Mutex
	var callers sync.WaitGroup
	ends := map[codes.Code]int{}
	for range calls {
		callers.Go(func() {
			_, err := c.UnaryCall(ctx, request(make([]byte, 10)))
			mu.Lock()
			defer mu.Unlock()
			ends[status.Code(err)]++
		})
	}
	callers.Wait()
	return ends
}

// TestHandlersMayWaitForEachOther has more calls that wait for each other than may begin
// at first. None may wait for ever.
func TestHandlersMayWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 3000
		s := NewServer()
		defer s.Stop()
		c := overPipe(t, s, newMeeting(calls))
		began := time.Now()
		if ends := callMeeting(t.Context(), c, calls); ends[codes.OK] != calls {
			t.Errorf("the calls ended with %v", ends)
		}
		if took := time.Since(began); took < firstUnparkDelay || took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestParkedCallsEnd ends calls that may not begin, in each way.
func TestParkedCallsEnd(t *testing.T) {
	const atWork, parked = h2.FirstCalls, 100
	for name, c := range map[string]struct {
		end  func(s *Server, cancel func())
		want codes.Code
	}{
		"deadline":  {func(*Server, func()) {}, codes.DeadlineExceeded},
		"cancelled": {func(_ *Server, cancel func()) { cancel() }, codes.Canceled},
		"stopped":   {func(s *Server, _ func()) { s.Stop() }, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer()
				defer s.Stop()
				m := newMeeting(-1)
				stub := overPipe(t, s, m)
				ctx, cancel := context.WithTimeout(t.Context(), firstUnparkDelay/2)
				defer cancel()
				ends := make(chan map[codes.Code]int)
				go func() { ends <- callMeeting(ctx, stub, atWork+parked) }()
				time.Sleep(firstUnparkDelay / 4)
				if n := m.arrived(); n != atWork {
					t.Errorf("%d handlers run, want %d", n, atWork)
				}
				c.end(s, cancel)
				if got := <-ends; got[c.want] != atWork+parked {
					t.Errorf("the calls ended with %v, want all %v", got, c.want)
				}
				time.Sleep(2 * firstUnparkDelay) // until the server knows
				if n := s.Counters(); n.CallsStarted != n.CallsFailed {
					t.Errorf("%d of %d calls ended", n.CallsFailed, n.CallsStarted)
				}
			})
		})
	}
}

// TestGracefulStopRunsParkedCalls stops a server while calls may not begin.
func TestGracefulStopRunsParkedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 700
		s := NewServer()
		m := newMeeting(calls)
		stub := overPipe(t, s, m)
		ends := make(chan map[codes.Code]int)
		go func() { ends <- callMeeting(t.Context(), stub, calls) }()
		time.Sleep(firstUnparkDelay / 4)
		s.GracefulStop()
		if got := <-ends; got[codes.OK] != calls {
			t.Errorf("the calls ended with %v", got)
		}
	})
}
