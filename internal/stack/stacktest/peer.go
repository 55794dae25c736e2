package stacktest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest/testpb"
)

// rawPeer answers whatever it is asked with these bytes, and hangs up. Without
// any it only listens. It returns its address; its clean-up closes it.
func rawPeer(t testing.TB, s Subject, answer []byte) string {
	t.Helper()
	if s.Datagrams {
		return rawDatagramPeer(t, answer)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("the peer cannot listen: %v", err)
	}
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		conns   []net.Conn
		closed  bool
	)
	workers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			if closed {
				_ = conn.Close()
			}
			mu.Unlock()
			if answer != nil {
				workers.Go(func() { answerOnce(conn, answer) })
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		closed = true
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		workers.Wait()
	})
	return listener.Addr().String()
}

func answerOnce(conn net.Conn, answer []byte) {
	buffer := make([]byte, 4096)
	_, _ = conn.Read(buffer)
	_, _ = conn.Write(answer)
	_ = conn.Close()
}

// callBadPeer dials a peer that is none, and returns how that ended: a stack
// whose wire begins with a greeting notices in NewClient, others in the call.
func callBadPeer(t testing.TB, s Subject, address string, limit time.Duration) error {
	t.Helper()
	client, err := s.Stack.NewClient(within(t, limit), s.Variant, s.target(stack.Target{Address: address}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = testpb.NewTestServiceClient(client).Unary(within(t, limit), &testpb.TestRequest{Body: []byte("anyone?")})
	return err
}

func checkPeerNeverAnswers(t testing.TB, s Subject) {
	address := rawPeer(t, s, nil)
	promptly(t, "a call to a peer that never answers", func() {
		err := callBadPeer(t, s, address, 100*time.Millisecond)
		expectCode(t, asStatus(err), codes.DeadlineExceeded)
	})
}

// asStatus reads NewClient's errors as those of a call are read.
func asStatus(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	return status.FromContextError(err).Err()
}

func checkPeerFallsSilent(t testing.TB, s Subject) {
	p := newProxy(t, s, start(t, s).address)
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: p.address()}))
	expectEcho(t, stub, "before")
	p.setSilent(true)
	promptly(t, "a call to a peer that fell silent", func() {
		_, err := stub.Unary(within(t, 100*time.Millisecond), &testpb.TestRequest{Body: []byte("lost")})
		expectCode(t, err, codes.DeadlineExceeded)
	})
	p.setSilent(false)
	expectRecovery(t, stub)
	expectEcho(t, stub, "after")
}

// checkPeerClosesMidResponse has the handler itself arm the proxy, so that the
// cut cannot fall before the call.
func checkPeerClosesMidResponse(t testing.TB, s Subject) {
	r := start(t, s)
	p := newProxy(t, s, r.address)
	r.service.answerWith(func(_ context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		if in.Count > 0 {
			p.cutAfter(int(in.Count))
			return &testpb.TestResponse{Body: filling(1<<20, 1)}, nil
		}
		return &testpb.TestResponse{Body: in.Body}, nil
	})
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: p.address()}))
	for _, cut := range []int32{1, 3, 70_000} {
		promptly(t, "a call whose answer is cut off", func() {
			_, err := stub.Unary(s.untilCutNoticed(t), &testpb.TestRequest{Count: cut})
			if code := status.Code(err); !s.Datagrams || code != codes.DeadlineExceeded {
				expectCode(t, err, codes.Unavailable)
			}
		})
		p.heal()
		expectRecovery(t, stub)
	}
	expectEcho(t, stub, "after")
}

// untilCutNoticed is the context of a call that is cut off. A stream's end is
// noticed; that datagrams come no longer is known when an idle timeout or the
// call's own deadline says so, whichever is first.
func (s Subject) untilCutNoticed(t testing.TB) context.Context {
	t.Helper()
	if s.Datagrams {
		return within(t, 500*time.Millisecond)
	}
	return bounded(t)
}

// checkPeerRestarts takes the server away and brings it back at its address.
func checkPeerRestarts(t testing.TB, s Subject) {
	r := start(t, s)
	dialer := &stack.Dialer{}
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: r.address, Dialer: dialer}))
	expectEcho(t, stub, "before")
	before := dialer.Counts()
	r.stop()
	promptly(t, "a call to a server that is gone", func() {
		_, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: []byte("lost")})
		expectCode(t, err, codes.Unavailable)
	})
	startAt(t, s, r.address)
	expectRecovery(t, stub)
	if after := dialer.Counts(); after.Opened <= before.Opened {
		t.Errorf("%d connections opened before the restart and %d after it", before.Opened, after.Opened)
	}
}

func checkPeerAnswersGarbage(t testing.TB, s Subject) {
	for name, garbage := range commonGarbage() {
		address := rawPeer(t, s, garbage)
		promptly(t, "a call that is answered with "+name, func() {
			if callBadPeer(t, s, address, time.Second) == nil {
				t.Errorf("%s was taken for an answer", name)
			}
		})
	}
}

// checkPeerAbsent dials a port that nobody listens on.
func checkPeerAbsent(t testing.TB, s Subject) {
	address := s.freeAddress(t)
	promptly(t, "dialling a port that nobody listens on", func() {
		client, err := s.Stack.NewClient(within(t, time.Second), s.Variant, s.target(stack.Target{Address: address}))
		if err == nil {
			_ = client.Close()
			t.Error("NewClient made a client of a server that is not there")
		}
	})
}

// freeAddress is one of the subject's kind that nobody listens on.
func (s Subject) freeAddress(t testing.TB) string {
	t.Helper()
	if s.Datagrams {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("ListenPacket: %v", err)
		}
		defer func() { _ = conn.Close() }()
		return conn.LocalAddr().String()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
