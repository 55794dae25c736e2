package fastgrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

func dialFast(t testing.TB, target string, opts ...ClientOption) *Client {
	t.Helper()
	c, err := fastClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*Client)
}

// elsewhere dials the target that was stored in it last, whatever the address.
type elsewhere struct {
	address atomic.Value
	nobody  string
}

func newElsewhere(t testing.TB) *elsewhere {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = taken.Close(), lis.Close() })
	e := &elsewhere{nobody: taken.LocalAddr().String()} // no one else is given it
	e.leave()
	return e
}

func (e *elsewhere) leave() { e.address.Store(e.nobody) }

func (e *elsewhere) dial(ctx context.Context, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(e.address.Load().(string), "passthrough:///"))
}

func startFast(t testing.TB, opts ...ServerOption) (*Server, string) {
	s := NewServer(opts...)
	return s, serve(t, s)
}

func ping(ctx context.Context, c *Client, opts ...grpc.CallOption) error {
	_, err := testgrpc.NewTestServiceClient(c).EmptyCall(ctx, &testgrpc.Empty{}, opts...)
	return err
}

func TestTLS(t *testing.T) {
	serverCreds, clientCreds := tlsForTests(t)
	_, target := startFast(t, Creds(serverCreds))
	c := dialFast(t, target, WithTransportCredentials(clientCreds))
	client := testgrpc.NewTestServiceClient(c)
	var p peer.Peer
	if _, err := client.UnaryCall(testContext(t), request(make([]byte, 100_000)), grpc.Peer(&p)); err != nil {
		t.Fatal(err)
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); !ok || info.State.NegotiatedProtocol != "h2" {
		t.Errorf("peer is %+v", p)
	}
	checkDuplex(testContext(t), t, client)
	plain := dialFast(t, target)
	if err := ping(testContext(t), plain); status.Code(err) != codes.Unavailable {
		t.Errorf("cleartext to a TLS server: %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer()
	testgrpc.RegisterTestServiceServer(s, echo{})
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	if err := ping(testContext(t), dialFast(t, "unix:"+path)); err != nil {
		t.Error(err)
	}
}

func TestRefusedTargets(t *testing.T) {
	for _, c := range []struct {
		target string
		opts   []ClientOption
		want   string
	}{
		{"localhost:1", nil, "no transport credentials"},
		{"xds:///service", []ClientOption{WithTransportCredentials(insecure.NewCredentials())}, "xds is not supported"},
		{"localhost:1", []ClientOption{WithTransportCredentials(insecure.NewCredentials()), WithDefaultServiceConfig(`{"loadBalancingConfig": [{"nobodys": {}}]}`)}, "no registered balancing policy"},
		{"unix://host/path", []ClientOption{WithTransportCredentials(insecure.NewCredentials())}, "unix:path"},
	} {
		if _, err := NewClient(c.target, c.opts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewClient(%q): %v, want %q", c.target, err, c.want)
		}
	}
}

func TestGracefulStopFinishesCalls(t *testing.T) {
	auditBuffers(t)
	s := NewServer()
	entered := make(chan struct{})
	gate := make(chan struct{})
	c := dialFast(t, serveTest(t, s, gated{entered: entered, gate: gate}))
	done := make(chan error, 1)
	go func() { done <- ping(testContext(t), c) }()
	<-entered
	stopped := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Error("stopped before the call ended")
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	if err := <-done; err != nil {
		t.Errorf("the call under way ended with %v", err)
	}
	<-stopped
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// gated is a service whose calls wait until the test releases them.
type gated struct {
	testgrpc.UnimplementedTestServiceServer
	entered, gate chan struct{}
	running       *atomic.Int32
}

func (g gated) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	if g.running != nil {
		g.running.Add(1)
		defer g.running.Add(-1)
	}
	g.entered <- struct{}{}
	select {
	case <-g.gate:
	case <-ctx.Done():
	}
	return &testgrpc.Empty{}, nil
}

func (gated) UnaryCall(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{}, nil
}

// TestSlowHandlers checks that waiting handlers, however many, do not delay other calls
// on their connection.
func TestSlowHandlers(t *testing.T) {
	s := NewServer()
	g := gated{entered: make(chan struct{}, 1000), gate: make(chan struct{})}
	c := dialFast(t, serveTest(t, s, g))
	var slow sync.WaitGroup
	for range 200 {
		slow.Add(1)
		go func() {
			defer slow.Done()
			if err := ping(testContext(t), c); err != nil {
				t.Error(err)
			}
		}()
	}
	for range 200 {
		<-g.entered // all of them run at once
	}
	for range 100 { // within testContext, while the others wait
		if _, err := testgrpc.NewTestServiceClient(c).UnaryCall(testContext(t), request(nil)); err != nil {
			t.Fatal(err)
		}
	}
	close(g.gate)
	slow.Wait()
}

// TestQueueing checks that calls beyond the server's stream limit wait and then succeed.
func TestQueueing(t *testing.T) {
	s := NewServer(MaxConcurrentStreams(3))
	running := new(atomic.Int32)
	g := gated{entered: make(chan struct{}, 100), gate: make(chan struct{}), running: running}
	c := dialFast(t, serveTest(t, s, g))
	ctx, cancel := context.WithCancel(testContext(t))
	var given sync.WaitGroup
	results := make(chan error, 20)
	for i := range 20 {
		given.Add(1)
		go func() {
			defer given.Done()
			if i < 10 {
				results <- ping(testContext(t), c)
			} else if err := ping(ctx, c); err != nil && status.Code(err) != codes.Canceled {
				t.Error(err)
			}
		}()
	}
	for range 3 {
		<-g.entered
	}
	eventually(t, "for the others to queue", func() bool {
		c.channel.set.Mu.Lock()
		defer c.channel.set.Mu.Unlock()
		waiting := 0
		for cc := range c.channel.set.Open {
			cc.Mu.Lock()
			waiting += len(cc.waiters)
			cc.Mu.Unlock()
		}
		return waiting == 17
	})
	if n := running.Load(); n != 3 {
		t.Errorf("%d calls run at once", n)
	}
	cancel() // those that wait give up, and their places go to others
	close(g.gate)
	given.Wait()
	for range 10 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestReconnect(t *testing.T) {
	to := newElsewhere(t)
	c := dialFast(t, "passthrough:///any", WithConnectParams(quickConnect), WithContextDialer(to.dial))
	for i := range 3 {
		s, address := startFast(t)
		to.address.Store(address)
		if err := ping(testContext(t), c, grpc.WaitForReady(true)); err != nil {
			t.Fatalf("server %d: %v", i, err)
		}
		to.leave()
		s.Stop()
		if err := ping(testContext(t), c); status.Code(err) != codes.Unavailable {
			t.Errorf("without server %d: %v", i, err)
		}
	}
}

// TestServerStopsAnswering checks that a client drops a silent server after its
// keepalive timeout.
func TestServerStopsAnswering(t *testing.T) {
	_, target := startFast(t)
	silence := new(atomic.Bool)
	c := dialFast(t, target,
		WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return &mutedConn{nc, silence}, err
		}),
		WithKeepaliveParams(keepalive.ClientParameters{Time: time.Second, Timeout: 50 * time.Millisecond}))
	c.pingTime.Store(int64(50 * time.Millisecond)) // below what the option allows
	s, err := testgrpc.NewTestServiceClient(c).FullDuplexCall(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	silence.Store(true)
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "ping") {
		t.Errorf("stream to a silent server: %v", err)
	}
}

// mutedConn discards writes while it is muted.
type mutedConn struct {
	net.Conn
	silence *atomic.Bool
}

func (m *mutedConn) Write(p []byte) (int, error) {
	if m.silence.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func TestTooManyPings(t *testing.T) {
	_, target := startFast(t)
	c := dialFast(t, target, WithKeepaliveParams(keepalive.ClientParameters{Time: time.Second}))
	c.pingTime.Store(int64(10 * time.Millisecond))
	s, err := testgrpc.NewTestServiceClient(c).FullDuplexCall(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("stream of a client that pings too much: %v", err)
	}
	if d := time.Duration(c.pingTime.Load()); d != 20*time.Millisecond {
		t.Errorf("the client pings every %v afterwards", d)
	}
}

func TestConnectionAge(t *testing.T) {
	s, target := startFast(t, KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 30 * time.Millisecond}))
	c := dialFast(t, target)
	eventually(t, "for a connection to be replaced", func() bool {
		if err := ping(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		s.set.Mu.Lock()
		defer s.set.Mu.Unlock()
		return s.gone.CallsSucceeded > 0
	})
	for range 100 { // beside further replacements
		if err := ping(testContext(t), c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIdleClient(t *testing.T) {
	_, target := startFast(t)
	c := dialFast(t, target, WithIdleTimeout(20*time.Millisecond))
	for range 2 {
		if err := ping(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		if !c.WaitForStateChange(testContext(t), connectivity.Ready) {
			t.Fatal("the connection stays although nobody calls")
		}
	}
}

// lateContext delays the functions of AfterFunc until it is released.
type lateContext struct {
	context.Context
	release chan struct{}
}

func (c lateContext) AfterFunc(f func()) func() bool {
	return context.AfterFunc(c.Context, func() { <-c.release; f() })
}

// inputEnds reports how the input of its calls ends.
type inputEnds struct {
	echo
	with chan error
}

func (s inputEnds) StreamingInputCall(in grpc.ClientStreamingServer[testgrpc.StreamingInputCallRequest, testgrpc.StreamingInputCallResponse]) error {
	_ = in.SendHeader(nil)
	_, err := in.Recv()
	s.with <- err
	return err
}

// A call that is cancelled before it is half-closed must not succeed, even if the
// goroutine that notices the cancellation is late.
func TestCancelBeforeCloseSend(t *testing.T) {
	service := inputEnds{with: make(chan error, 1)}
	c := dialFast(t, serveTest(t, NewServer(), service))
	inner, cancel := context.WithCancel(t.Context())
	ctx := lateContext{inner, make(chan struct{})}
	stream, err := testgrpc.NewTestServiceClient(c).StreamingInputCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil { // the handler runs
		t.Fatal(err)
	}
	cancel()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := ping(t.Context(), c); err != nil { // after which the server has read all of the above
		t.Fatal(err)
	}
	close(ctx.release)
	if err := <-service.with; status.Code(err) != codes.Canceled {
		t.Errorf("the server's Recv returned %v, want Canceled", err)
	}
	if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Canceled {
		t.Errorf("the client got %v, want Canceled", err)
	}
}

// TestServerStreamOfADeadConnection checks that a server stream fails if its connection is
// lost before its request was sent. The error may come from the function that opens it or
// from Recv. It must not be io.EOF, which is a good end.
func TestServerStreamOfADeadConnection(t *testing.T) {
	for name, dial := range map[string]func(string, ...ClientOption) (grpcClient, error){"ours": fastClient, "theirs": theirClient} {
		t.Run(name, func(t *testing.T) {
			server := NewServer()
			c, err := dial(serveTest(t, server, echo{}))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			s, err := c.NewStream(testContext(t), &grpc.StreamDesc{ServerStreams: true}, "/grpc.testing.TestService/StreamingOutputCall")
			if err != nil {
				t.Fatal(err)
			}
			server.Stop()
			_, _ = s.Header() // has waited for the end
			err = s.SendMsg(&testgrpc.StreamingOutputCallRequest{})
			if err == nil {
				err = errors.Join(s.CloseSend(), s.RecvMsg(&testgrpc.StreamingOutputCallResponse{}))
			}
			if status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want Unavailable", err)
			}
		})
	}
}

func TestClosedClient(t *testing.T) {
	_, target := startFast(t)
	c := dialFast(t, target)
	s, err := testgrpc.NewTestServiceClient(c).FullDuplexCall(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("stream of a closed client: %v", err)
	}
	if err := ping(testContext(t), c); status.Code(err) != codes.Canceled {
		t.Errorf("call on a closed client: %v", err)
	}
	if err := c.Close(); !errors.Is(err, ErrClientClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// TestSlowReader checks that a client that does not read a stream slows down only that
// stream.
func TestSlowReader(t *testing.T) {
	_, target := startFast(t)
	c := dialFast(t, target)
	client := testgrpc.NewTestServiceClient(c)
	in := &testgrpc.StreamingOutputCallRequest{}
	for range 100 {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: 1 << 20})
	}
	slow, err := client.StreamingOutputCall(testContext(t), in)
	if err != nil {
		t.Fatal(err)
	}
	window := uint64(defaultLimits().h2.StreamWindow)
	eventually(t, "for the window to fill", func() bool { return c.Conns()[0].Counters.BytesIn >= window })
	for range 20 {
		if _, err := client.UnaryCall(testContext(t), request(make([]byte, 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	if held := c.Conns()[0].Counters.BytesIn; held > 2*window+20*101_000 { // the calls bring back their payloads
		t.Errorf("%d bytes have come that nobody reads", held)
	}
	for i := range 100 {
		if _, err := slow.Recv(); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if _, err := slow.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the slow stream ended with %v", err)
	}
}

// TestUnboundedStreams checks that a server with MaxConcurrentStreams(0) answers.
func TestUnboundedStreams(t *testing.T) {
	_, target := startFast(t, MaxConcurrentStreams(0))
	if err := ping(testContext(t), dialFast(t, target)); err != nil {
		t.Error(err)
	}
}
