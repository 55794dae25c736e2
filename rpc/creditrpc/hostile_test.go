package creditrpc

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// attacker is a client that writes what it likes. It reads only where a test says so.
type attacker struct {
	net.Conn
	t    *testing.T
	out  []byte
	next uint32
}

// attack connects and says Hello, with windows as wide as there are.
func attack(t *testing.T, address string) *attacker {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	a := &attacker{Conn: conn, t: t, next: 1}
	a.out = frame.AppendHello(nil, frame.Settings{Version: frame.Version, Window: frame.MaxGrant, PerStream: frame.MaxGrant, MaxMessage: 1 << 30, MaxMeta: 1 << 20})
	return a
}

// names gives a method the next number.
func (a *attacker) names(method string) {
	a.out = append(frame.Head{Length: len(method), Type: frame.Method}.Append(a.out), method...)
}

// request begins a call of the first method with a whole message.
func (a *attacker) request(meta []byte, message proto.Message) {
	payload := frame.RequestStart{Meta: meta}.Append(nil)
	payload, err := proto.MarshalOptions{}.MarshalAppend(payload, message)
	if err != nil {
		a.t.Fatal(err)
	}
	a.out = append(frame.Head{Length: len(payload), Type: frame.Request, Flags: frame.End, Stream: a.next}.Append(a.out), payload...)
	a.next++
}

// flush writes the collected bytes. It does not check that the server still reads.
func (a *attacker) flush(within time.Duration) error {
	_ = a.SetWriteDeadline(time.Now().Add(within))
	_, err := a.Write(a.out)
	a.out = nil
	return err
}

const unaryCall = "/grpc.testing.TestService/UnaryCall"

// A client that grants everything and reads nothing: its answers are worked out only as far
// as the calls go that it may have under way.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	const calls, size = 64, 256 << 10
	s := new(service)
	server := NewServer(MaxCalls(calls))
	a := attack(t, serve(t, server, s))
	a.names(unaryCall)
	before := liveHeap()
	for range calls {
		a.request(nil, &testgrpc.SimpleRequest{ResponseSize: size, Payload: &testgrpc.Payload{Body: []byte("x")}})
	}
	if err := a.flush(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all calls ran", func() bool { return s.calls.Load() == calls })
	if grown := liveHeap() - before; grown > 3*calls*size {
		t.Errorf("%d unread answers of %d bytes keep %d", calls, size, grown)
	}
	// More calls than it was granted are a fault, whatever it has read.
	for range calls {
		a.request(nil, &testgrpc.SimpleRequest{ResponseSize: size})
	}
	_ = a.flush(time.Second)
	waitFor(t, "the connection is closed", func() bool { return openConns(server) == 0 })
	if ran := s.calls.Load(); ran > 2*calls {
		t.Errorf("%d calls ran", ran)
	}
}

func openConns(s *Server) int {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	return len(s.conns.Open)
}

// One that goes on with calls for as long as handlers return: answers that lie at the server
// keep their calls' places.
func TestWhoReadsNoAnswersIsNotServedForEver(t *testing.T) {
	const calls, size, most = 100, 64 << 10, 2000
	s := new(service)
	a := attack(t, serve(t, NewServer(MaxCalls(calls)), s))
	a.names(unaryCall)
	before := liveHeap()
	for sent := int64(0); sent < most; {
		for ; sent-s.calls.Load() < calls && sent < most; sent++ {
			a.request(nil, &testgrpc.SimpleRequest{ResponseSize: size, Payload: &testgrpc.Payload{Body: []byte("x")}})
		}
		if a.flush(time.Second) != nil {
			break // the server has thrown it out, or reads no more
		}
		ran := s.calls.Load()
		if time.Sleep(50 * time.Millisecond); s.calls.Load() == ran {
			break
		}
	}
	if ran := s.calls.Load(); ran >= most {
		t.Errorf("%d calls were served, whose answers nobody read", ran)
	}
	if grown := liveHeap() - before; grown > 3*calls*size {
		t.Errorf("%d answers of %d bytes that nobody read keep %d", s.calls.Load(), size, grown)
	}
}

// stubborn is a service whose handlers do not end when their calls do.
type stubborn struct {
	service
	now, most atomic.Int64
	release   chan struct{}
}

func (s *stubborn) UnaryCall(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	s.run()
	return new(testgrpc.SimpleResponse), nil
}

func (s *stubborn) FullDuplexCall(grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	s.run()
	return nil
}

func (s *stubborn) run() {
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	<-s.release
}

// A client that begins calls and cancels them at once has no more handlers than calls.
func TestCancelledCallsKeepTheirPlaces(t *testing.T) {
	const calls, attempts = 20, 2000
	s := &stubborn{release: make(chan struct{})}
	address := serve(t, NewServer(MaxCalls(calls)), s)
	defer close(s.release)
	c := testgrpc.NewTestServiceClient(dial(t, address))
	var callers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	callers.Go(func() { _, _ = c.UnaryCall(ctx, request([]byte("x"))) })
	waitFor(t, "the first handler runs", func() bool { return s.now.Load() > 0 }) // a connection takes longer than the rest may wait
	for range attempts {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, _ = c.UnaryCall(ctx, request([]byte("x")))
		})
	}
	cancel()
	callers.Wait()
	if most := s.most.Load(); most > calls {
		t.Errorf("%d handlers ran at once, want at most %d", most, calls)
	}
	// Callers and timers that have just ended may still count.
	waitFor(t, "there are few more goroutines than handlers", func() bool { return runtime.NumGoroutine() <= calls+50 })
}

// Calls with all the metadata that they may have cost that, and no more.
func TestMetadataOfOpenCallsIsBounded(t *testing.T) {
	for _, method := range []string{unaryCall, "/grpc.testing.TestService/FullDuplexCall"} {
		t.Run(method, func(t *testing.T) { boundMetadata(t, method) })
	}
}

func boundMetadata(t *testing.T, method string) {
	const calls, each = 200, 16 << 10
	s := &stubborn{release: make(chan struct{})}
	// The attacker waits for no grant: the window takes whatever it writes.
	a := attack(t, serve(t, NewServer(MaxCalls(calls), Window(2*calls*each)), s))
	defer close(s.release)
	a.names(method)
	meta := frame.AppendMeta(nil, "x", string(make([]byte, each-10)))
	before := liveHeap()
	go func() { _, _ = io.Copy(io.Discard, a) }() // ends with the connection
	for range calls {
		a.request(meta, request(nil))
		if err := a.flush(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "all handlers run", func() bool { return s.now.Load() == calls })
	grown := liveHeap() - before
	t.Logf("%d calls with %d bytes of metadata each keep %d", s.now.Load(), each, grown)
	if grown > 2*calls*each {
		t.Errorf("%d calls with %d bytes of metadata keep %d", calls, each, grown)
	}
}

// Connections that say half a Hello, and nothing more, cost little.
func TestHalfAHelloIsCheap(t *testing.T) {
	const connections = 200
	server := NewServer()
	address := serve(t, server, new(service))
	before := liveHeap()
	for range connections {
		a := attack(t, address)
		a.out = a.out[:5]
		if err := a.flush(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "all connections are served", func() bool { return openConns(server) == connections })
	if grown := (liveHeap() - before) / connections; grown > 64<<10 { // an idle connection of grpc-go's takes 54 KB
		t.Errorf("each keeps %d bytes", grown)
	} else {
		t.Logf("each keeps %d bytes, both ends", grown)
	}
	if _, err := testgrpc.NewTestServiceClient(dial(t, address)).UnaryCall(t.Context(), request(nil)); err != nil {
		t.Errorf("a call beside them: %v", err)
	}
}

// A client that does not say Hello, or only half of it, is not served for ever.
func TestWhoSaysNoHelloIsDisconnected(t *testing.T) {
	server := NewServer(HandshakeTimeout(100 * time.Millisecond))
	address := serve(t, server, new(service))
	greeted := testgrpc.NewTestServiceClient(dial(t, address))
	if _, err := greeted.UnaryCall(t.Context(), request(nil)); err != nil {
		t.Fatal(err)
	}
	for _, said := range [][]byte{nil, frame.AppendHello(nil, frame.Settings{Version: frame.Version})[:5]} {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		if _, err := nc.Write(said); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "only the greeted connection is left", func() bool { return openConns(server) == 1 })
	if _, err := greeted.UnaryCall(t.Context(), request(nil)); err != nil {
		t.Errorf("a call over the greeted connection: %v", err)
	}
}

// A client gives up on a server that does not say Hello.
func TestSilentServer(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	c := testgrpc.NewTestServiceClient(dial(t, lis.Addr().String(), WithConnectTimeout(100*time.Millisecond)))
	if _, err := c.UnaryCall(t.Context(), request(nil)); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable", err)
	}
}

// Servers that refuse every call see few of each.
func TestRefusalsAreRepeatedSeldom(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int64
	var served sync.WaitGroup
	served.Go(func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			dials.Add(1)
			out := frame.AppendHello(nil, frame.Settings{Version: frame.Version, Window: 1 << 20, PerStream: 1 << 18, Calls: 100, MaxMessage: 1 << 20, MaxMeta: 1 << 14})
			_, _ = nc.Write(frame.Head{Type: frame.Goodbye}.AppendFrame(out, []byte{0}))
			served.Go(func() {
				_, _ = io.Copy(io.Discard, nc)
				_ = nc.Close()
			})
		}
	})
	client := dial(t, lis.Addr().String(), WithBackoff(time.Millisecond))
	if _, err := testgrpc.NewTestServiceClient(client).UnaryCall(t.Context(), request(nil)); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable", err)
	}
	if n := dials.Load(); n > maxTries {
		t.Errorf("a call was tried on %d connections", n)
	}
	_ = client.Close()
	_ = lis.Close()
	served.Wait()
}

// Messages that are nested more deeply than package proto allows fail, before a decoder recurses.
func TestDeepMessages(t *testing.T) {
	nested := func(depth int) []byte { // a ListValue in a Value in a ListValue ...
		var data []byte
		for range depth {
			data = protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), data)
			data = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), data)
		}
		return data
	}
	for name, read := range map[string]func([]byte, proto.Message) error{"copied": proto.Unmarshal, "aliased": rpccall.UnmarshalAliased} {
		if err := unmarshal(nested(100), new(structpb.ListValue), read); err != nil {
			t.Errorf("%s: 100 messages: %v", name, err)
		}
		if err := unmarshal(nested(protowire.DefaultRecursionLimit/2+1), new(structpb.ListValue), read); status.Code(err) != codes.Internal {
			t.Errorf("%s: too many messages: %v, want Internal", name, err)
		}
	}
}

// Metadata keeps its length on the wire until the program reads it. The map may then take more.
func TestMetadataInMemory(t *testing.T) {
	const wire, most = 16 << 10, 40
	var worst []byte
	for i := 0; len(worst) < wire-4; i++ {
		worst = frame.AppendMeta(worst, string([]byte{byte(i), byte(i >> 8)}), "")
	}
	before := liveHeap()
	kept := make([]metadata.MD, 100)
	for i := range kept {
		kept[i] = readMeta(worst)
	}
	grown := liveHeap() - before
	runtime.KeepAlive(kept)
	t.Logf("%d bytes take %d", wire, grown/int64(len(kept)))
	if grown > most*wire*int64(len(kept)) {
		t.Errorf("metadata takes %d times its length, want at most %d", grown/int64(len(kept))/wire, most)
	}
}

// The answer of a handler that has returned waits for credit when its client leaves.
func TestUnsentAnswersAreReleased(t *testing.T) {
	var buffers atomic.Int64
	batchio.CountBuffers(&buffers)
	defer batchio.CountBuffers(nil)
	server := NewServer()
	a := attack(t, serve(t, server, new(service)))
	a.out = frame.AppendHello(nil, frame.Settings{Version: frame.Version, Window: credit.MinWindow, PerStream: credit.MinWindow, MaxMessage: 1 << 30, MaxMeta: 1 << 10})
	a.names(unaryCall)
	a.request(nil, &testgrpc.SimpleRequest{ResponseSize: 1 << 20, Payload: &testgrpc.Payload{Body: []byte("x")}})
	if err := a.flush(time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(a, make([]byte, credit.Turn)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	_ = a.Close()
	waitFor(t, "the connection is gone", func() bool { return openConns(server) == 0 })
	waitFor(t, "all buffers are released", func() bool { return buffers.Load() == 0 })
}
