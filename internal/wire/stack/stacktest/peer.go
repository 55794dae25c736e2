package stacktest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
	rpccall "wirelab.dev/rpc/call"
)

type peer struct {
	address string
	asked   atomic.Int64 // number of reads that returned data
}

// rawPeer starts a server that answers everything with fixed bytes and, over TCP, disconnects. If
// answer is nil, the server only listens.
func rawPeer(t testing.TB, s Subject, answer []byte) *peer {
	t.Helper()
	listener := listen(t, s)
	p := &peer{address: listener.Addr().String()}
	acceptAll(t, listener, func(conn net.Conn) {
		buffer := make([]byte, largestDatagram)
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
			if answer != nil {
				_, _ = conn.Write(answer)
			}
			p.asked.Add(1)
			if answer != nil && !s.Datagrams {
				_ = conn.Close()
			}
		}
	})
	return p
}

// dialAndCall calls a server that the client should refuse, either in NewClient or in the call.
func dialAndCall(ctx context.Context, s Subject, target stack.Target) error {
	client, err := s.Stack.NewClient(ctx, s.Variant, target)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = testpb.NewTestServiceClient(client).Unary(ctx, &testpb.TestRequest{Body: []byte("anyone?")})
	return err
}

func checkPeerNeverAnswers(t testing.TB, s Subject) {
	address := rawPeer(t, s, nil).address
	expectPrompt(t, "a call to a peer that never answers", func() {
		err := dialAndCall(timeoutContext(t, 100*time.Millisecond), s, s.target(stack.Target{Address: address}))
		expectCode(t, rpccall.StatusOf(err).Err(), codes.DeadlineExceeded)
	})
}

func checkPeerFallsSilent(t testing.TB, s Subject) {
	p := newProxy(t, s, startService(t, s).address)
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: p.address}))
	expectEcho(t, stub, "before")
	p.setSilent(true)
	expectPrompt(t, "a call to a peer that fell silent", func() {
		_, err := stub.Unary(timeoutContext(t, 100*time.Millisecond), &testpb.TestRequest{Body: []byte("lost")})
		expectCode(t, err, codes.DeadlineExceeded)
	})
	p.setSilent(false)
	expectRecovery(t, stub)
	expectEcho(t, stub, "after")
}

// checkPeerClosesMidResponse closes the connection in the middle of a response. The handler
// triggers this, after the request has arrived.
func checkPeerClosesMidResponse(t testing.TB, s Subject) {
	r := startService(t, s)
	p := newProxy(t, s, r.address)
	r.service.setUnaryHandler(func(_ context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		if in.Count > 0 {
			p.cutAfter(int(in.Count))
			return &testpb.TestResponse{Body: randomBytes(1<<20, 1)}, nil
		}
		return &testpb.TestResponse{Body: in.Body}, nil
	})
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: p.address}))
	for _, after := range []int32{1, 3, 70_000} {
		expectPrompt(t, "a call whose answer is cut off", func() {
			_, err := stub.Unary(s.contextUntilCut(t, p), &testpb.TestRequest{Count: after})
			if code := status.Code(err); !s.Datagrams || code != codes.Canceled {
				expectCode(t, err, codes.Unavailable)
			}
		})
		p.heal()
		expectRecovery(t, stub)
	}
	expectEcho(t, stub, "after")
}

// contextUntilCut returns a context for a call whose answer is cut off. Over UDP the client
// notices the cut only after an idle timeout, so the context ends at the cut.
func (s Subject) contextUntilCut(t testing.TB, p *proxy) context.Context {
	t.Helper()
	ctx, giveUp := context.WithCancel(checkContext(t))
	t.Cleanup(giveUp)
	if s.Datagrams {
		p.withLock(func() { p.onCut = giveUp })
	}
	return ctx
}

func checkPeerRestarts(t testing.TB, s Subject) {
	r := serve(t, s, newService(), net.JoinHostPort(ownLoopbackHost(), "0"))
	dialer := &conn.Dialer{}
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: r.address, Dialer: dialer}))
	expectEcho(t, stub, "before")
	before := dialer.Counts()
	r.stop()
	expectPrompt(t, "a call to a server that is gone", func() {
		_, err := stub.Unary(checkContext(t), &testpb.TestRequest{Body: []byte("lost")})
		expectCode(t, err, codes.Unavailable)
	})
	serve(t, s, newService(), r.address)
	expectRecovery(t, stub)
	if after := dialer.Counts(); after.Opened <= before.Opened {
		t.Errorf("%d connections opened before the restart and %d after it", before.Opened, after.Opened)
	}
}

// checkPeerAnswersGarbage makes one call per kind of garbage, all in parallel. Over UDP a client
// ignores garbage and sends again, so the check cancels the call after three packets.
func checkPeerAnswersGarbage(t testing.TB, s Subject) {
	const enough = 3
	var all sync.WaitGroup
	for name, garbage := range commonGarbage() {
		p := rawPeer(t, s, garbage)
		ctx, giveUp := context.WithCancel(checkContext(t))
		t.Cleanup(giveUp)
		if s.Datagrams {
			all.Go(func() {
				for p.asked.Load() < enough && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				giveUp()
			})
		}
		all.Go(func() {
			defer giveUp()
			expectPrompt(t, "a call that is answered with "+name, func() {
				if dialAndCall(ctx, s, s.target(stack.Target{Address: p.address})) == nil {
					t.Errorf("%s was accepted as an answer", name)
				}
			})
		})
	}
	all.Wait()
}

func checkPeerAbsent(t testing.TB, s Subject) {
	address := s.unusedAddress(t)
	expectPrompt(t, "dialling a port that nobody listens on", func() {
		client, err := s.Stack.NewClient(checkContext(t), s.Variant, s.target(stack.Target{Address: address}))
		if err == nil {
			_ = client.Close()
			t.Error("NewClient succeeded without a server")
		}
	})
}

// unusedAddress returns an address on which nothing listens. It belongs to an open connection, so
// that no other program gets it.
func (s Subject) unusedAddress(t testing.TB) string {
	t.Helper()
	network, to := "udp", "127.0.0.1:9"
	if !s.Datagrams {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		requireNoError(t, "Listen", err)
		t.Cleanup(func() { _ = listener.Close() })
		network, to = "tcp", listener.Addr().String()
	}
	taken, err := net.Dial(network, to)
	requireNoError(t, "Dial", err)
	t.Cleanup(func() { _ = taken.Close() })
	return taken.LocalAddr().String()
}

// ownLoopbackHost returns a loopback address that other checks probably do not use. Only Linux has
// several loopback addresses.
func ownLoopbackHost() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.N(254)), byte(rand.N(256)), byte(1 + rand.N(254))}).String()
}

// commonGarbage returns bytes that no wire here accepts as a request or an answer.
func commonGarbage() map[string][]byte {
	garbage := map[string][]byte{
		"one byte":          {0x80},
		"ones":              bytes.Repeat([]byte{0xff}, 64),
		"an old web answer": []byte("HTTP/1.0 418 I'm a teapot\r\n\r\nshort and stout"),
		"TLS's greeting":    clientHello(),
	}
	for seed := range byte(5) {
		// This first byte is invalid in a length, in a frame and in an HTTP method.
		garbage[fmt.Sprintf("random bytes %d", seed)] = append([]byte{0xf0 | seed}, randomBytes(1000, seed)...)
	}
	return garbage
}

func clientHello() []byte {
	here, there := net.Pipe()
	defer func() { _ = here.Close() }()
	go func() {
		_ = tls.Client(there, &tls.Config{ServerName: "wirelab.test"}).Handshake()
		_ = there.Close()
	}()
	buffer := make([]byte, 4096)
	n, _ := here.Read(buffer)
	return buffer[:n]
}

// checkPeerSendsGarbage sends garbage to a server that also has a good client and a silent
// connection.
func checkPeerSendsGarbage(t testing.TB, s Subject) {
	r := startService(t, s)
	stub := r.stub()
	expectEcho(t, stub, "before")
	before := stableCount(s.lastingGoroutines) // the count excludes the silent connection: the server may not have begun to serve it
	mute, err := net.Dial(s.network(), r.address)
	requireNoError(t, "dial", err)
	t.Cleanup(func() { _ = mute.Close() })
	expectFreshEcho(t, r, "beside the mute one")

	garbage := commonGarbage()
	maps.Copy(garbage, s.Garbage)
	garbage["a web request"] = []byte("GET / HTTP/1.1\r\nHost: wirelab.test\r\n\r\n")
	garbage["nothing"] = nil
	for name, data := range garbage {
		conn, err := net.Dial(s.network(), r.address)
		if err != nil {
			t.Fatalf("%s: the server takes no connections any more: %v", name, err)
		}
		_, _ = conn.Write(data) // ignore errors: the server may have disconnected
		if name == "nothing" || len(data)%2 == 0 {
			if tcp, is := conn.(*net.TCPConn); is {
				_ = tcp.SetLinger(0) // close with a reset, as some peers do
			}
		}
		_ = conn.Close()
	}
	expectEcho(t, stub, "the same client")
	expectFreshEcho(t, r, "a fresh client")
	_ = mute.Close()
	expectCountAtMost(t, "goroutines", before, s.lastingGoroutines)
	s.logFailure(t)
}

func expectFreshEcho(t testing.TB, r *rig, body string) {
	t.Helper()
	useClient(t, r.subject, r.subject.target(stack.Target{Address: r.address}), func(stub testpb.TestServiceClient) { expectEcho(t, stub, body) })
}
