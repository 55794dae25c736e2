package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

type (
	duplexClient = grpc.BidiStreamingClient[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]
	duplexServer = grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]
)

// A scene is a stream. Its client and its server say what they see.
type scene struct {
	name   string
	client func(say func(string, ...any), stream duplexClient, cancel func())
	server func(say func(string, ...any), stream duplexServer) error
}

// sceneServer plays the server's part of a scene.
type sceneServer struct {
	testgrpc.UnimplementedTestServiceServer
	play func(duplexServer) error
}

func (s sceneServer) FullDuplexCall(stream duplexServer) error { return s.play(stream) }

// doneSoon says whether a context ends.
func doneSoon(ctx context.Context) string {
	select {
	case <-ctx.Done():
		return ctx.Err().Error()
	case <-time.After(10 * time.Second):
		return "not done"
	}
}

// TestScenes checks that both ends see in a stream what they see with grpc-go at both ends.
func TestScenes(t *testing.T) {
	failed, _ := status.New(codes.NotFound, "no").WithDetails(&testgrpc.SimpleRequest{ResponseSize: 7})
	end := func(say func(string, ...any), stream duplexClient) {
		_, err := stream.Recv()
		say("Recv: %v, context %s", status.Code(err), doneSoon(stream.Context()))
	}
	scenes := []scene{
		{
			name: "context",
			client: func(say func(string, ...any), stream duplexClient, _ func()) {
				_, err := stream.Recv()
				p, ok := peer.FromContext(stream.Context())
				say("Recv: %v, peer %v, context %v", err, ok && p.Addr != nil, stream.Context().Err())
				_, err = stream.Recv()
				say("Recv: %v, context %s", err, doneSoon(stream.Context()))
			},
			server: func(_ func(string, ...any), stream duplexServer) error {
				return stream.Send(&testgrpc.StreamingOutputCallResponse{})
			},
		},
		{
			name: "context of a stream that fails",
			client: func(say func(string, ...any), stream duplexClient, _ func()) {
				end(say, stream)
				say("details: %d", len(stream.Trailer()["grpc-status-details-bin"]))
				say("%v", stream.Trailer())
			},
			server: func(func(string, ...any), duplexServer) error { return failed.Err() },
		},
		{
			name: "the program's own details",
			client: func(say func(string, ...any), stream duplexClient, _ func()) {
				end(say, stream)
				say("%q", stream.Trailer())
			},
			server: func(_ func(string, ...any), stream duplexServer) error {
				stream.SetTrailer(metadata.Pairs("grpc-status-details-bin", "own", "other-bin", "\x00\xff"))
				return nil
			},
		},
		{
			name: "context of a cancelled stream",
			client: func(say func(string, ...any), stream duplexClient, cancel func()) {
				_, _ = stream.Header()
				cancel()
				end(say, stream)
			},
			server: func(say func(string, ...any), stream duplexServer) error {
				_ = stream.SendHeader(nil)
				<-stream.Context().Done()
				say("SendHeader: %v, SetHeader: %v", status.Code(stream.SendHeader(nil)), status.Code(stream.SetHeader(metadata.Pairs("a", "b"))))
				return nil
			},
		},
		{
			name: "SendHeader when the stream is over",
			client: func(say func(string, ...any), stream duplexClient, cancel func()) {
				_ = stream.Send(&testgrpc.StreamingOutputCallRequest{})
				_, _ = stream.Recv()
				cancel()
				end(say, stream)
			},
			server: func(say func(string, ...any), stream duplexServer) error {
				_, _ = stream.Recv()
				_ = stream.Send(&testgrpc.StreamingOutputCallResponse{})
				<-stream.Context().Done()
				say("SendHeader: %v", status.Code(stream.SendHeader(nil)))
				return nil
			},
		},
		{
			name: "SendMsg after CloseSend",
			client: func(say func(string, ...any), stream duplexClient, _ func()) {
				_, _ = stream.Header()
				_ = stream.CloseSend()
				say("Send: %v", status.Code(stream.Send(&testgrpc.StreamingOutputCallRequest{})))
				end(say, stream)
			},
			server: func(say func(string, ...any), stream duplexServer) error {
				_ = stream.SendHeader(nil)
				say("context %s", doneSoon(stream.Context()))
				return nil
			},
		},
	}
	for _, sc := range scenes {
		t.Run(sc.name, func(t *testing.T) {
			var want string
			for _, p := range append([]pair{{"grpc-go to grpc-go", theirServer, theirClient}}, pairs...) {
				var said [2]strings.Builder
				say := func(end int) func(string, ...any) {
					return func(format string, args ...any) { fmt.Fprintf(&said[end], format+"\n", args...) }
				}
				served := make(chan struct{})
				c, err := p.client(serveTest(t, p.server(), sceneServer{play: func(stream duplexServer) error {
					defer close(served)
					return sc.server(say(1), stream)
				}}))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(testContext(t))
				stream, err := testgrpc.NewTestServiceClient(c).FullDuplexCall(ctx)
				if err != nil {
					t.Fatal(err)
				}
				sc.client(say(0), stream, cancel)
				<-served
				cancel()
				_ = c.Close()
				got := said[0].String() + "server: " + said[1].String()
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("%s:\n%s\nwant as with grpc-go:\n%s", p.name, got, want)
				}
			}
		})
	}
}

// TestContextEndsWithTheClient checks that closing the client ends a stream's context.
func TestContextEndsWithTheClient(t *testing.T) {
	for name, dial := range map[string]func(string, ...ClientOption) (grpcClient, error){"ours": fastClient, "theirs": theirClient} {
		c, err := dial(serveTest(t, NewServer(), sceneServer{play: func(stream duplexServer) error {
			_ = stream.SendHeader(nil)
			<-stream.Context().Done()
			return nil
		}}))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := testgrpc.NewTestServiceClient(c).FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = stream.Header()
		_ = c.Close()
		if got := doneSoon(stream.Context()); got != context.Canceled.Error() {
			t.Errorf("%s: the context is %s, want %v", name, got, context.Canceled)
		}
	}
}

// TestBadResponses checks the codes of calls whose response breaks gRPC's rules.
func TestBadResponses(t *testing.T) {
	ok := block(":status", "200", "content-type", "application/grpc")
	for _, test := range []struct {
		name            string
		header, trailer []byte
	}{
		{"no status", ok, block("x", "y")},
		{"an empty status", ok, block("grpc-status", "")},
		{"a status with letters", ok, block("grpc-status", "none")},
		{"no status, without a header", nil, block(":status", "200", "content-type", "application/grpc")},
		{"invalid base64 in the header", block(":status", "200", "content-type", "application/grpc", "x-bin", "!"), block("grpc-status", "0")},
		{"invalid base64 in the trailer", ok, block("grpc-status", "0", "x-bin", "=====")},
		{"invalid base64 in the details", ok, block("grpc-status", "5", "grpc-status-details-bin", "*")},
		{"an HTTP status with letters", nil, block(":status", "abc", "content-type", "text/html")},
		{"HTTP 502", nil, block(":status", "502", "content-type", "text/html")},
		{"another content type", nil, block(":status", "200", "content-type", "text/html")},
	} {
		var want codes.Code
		for i, dial := range []func(string, ...ClientOption) (grpcClient, error){theirClient, fastClient} {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lis.Close() }()
			go answerOneCall(lis, test.header, test.trailer)
			c, err := dial(lis.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, err = testgrpc.NewTestServiceClient(c).EmptyCall(testContext(t), &testgrpc.Empty{})
			_ = c.Close()
			if i == 0 {
				want = status.Code(err)
			} else if got := status.Code(err); got != want {
				t.Errorf("%s: the code is %v, want %v: %v", test.name, got, want, err)
			}
		}
	}
}

// answerOneCall serves one connection, and answers its first call with these blocks.
func answerOneCall(lis net.Listener, header, trailer []byte) {
	nc, err := lis.Accept()
	if err != nil {
		return
	}
	defer func() { _ = nc.Close() }()
	a := newAttacker(nc)
	_, _ = io.ReadFull(nc, make([]byte, len(http2.ClientPreface)))
	_ = a.WriteSettings()
	for err == nil {
		var frame http2.Frame
		frame, err = a.ReadFrame()
		if _, called := frame.(*http2.MetaHeadersFrame); !called {
			continue
		}
		if header != nil {
			_ = a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: header})
		}
		_ = a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: trailer})
	}
}

// TestForbiddenKeys checks that either end refuses metadata that HTTP/2 forbids, and names the key.
func TestForbiddenKeys(t *testing.T) {
	c := dialFast(t, serveTest(t, NewServer(), sceneServer{play: func(stream duplexServer) error {
		return stream.SetHeader(metadata.Pairs("connection", "close"))
	}}))
	for _, key := range []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "content-length"} {
		ctx := metadata.AppendToOutgoingContext(testContext(t), key, "3")
		_, err := testgrpc.NewTestServiceClient(c).EmptyCall(ctx, &testgrpc.Empty{})
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), `"`+key+`"`) {
			t.Errorf("a call with the key %s returns %v, want Internal with the key's name", key, err)
		}
	}
	stream, err := testgrpc.NewTestServiceClient(c).FullDuplexCall(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), `"connection"`) {
		t.Errorf("SetHeader with the key connection returns %v, want Internal with the key's name", err)
	}
}

// TestDeadCallsRunNoHandler checks that a call which has no time left is answered without its handler.
func TestDeadCallsRunNoHandler(t *testing.T) {
	var ran atomic.Int32
	target := serveTest(t, NewServer(), sceneServer{play: func(duplexServer) error {
		ran.Add(1)
		return nil
	}})
	nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if got := statusOfCall(t, nc, "1n"); got != "4" {
		t.Errorf("grpc-status is %s, want 4 (DeadlineExceeded)", got)
	}
	if n := ran.Load(); n > 0 {
		t.Errorf("the handler ran %d times, want 0", n)
	}
}

// TestServeHTTPRefuses checks the HTTP status for requests that are not gRPC.
func TestServeHTTPRefuses(t *testing.T) {
	for _, test := range []struct{ method, contentType string }{
		{http.MethodGet, ""}, {http.MethodGet, "application/grpc"}, {http.MethodPost, "text/html"}, {http.MethodPost, "application/grpc"},
	} {
		var got [2]int
		for i, h := range []http.Handler{grpc.NewServer(), NewServer()} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(test.method, "/x.y/z", http.NoBody)
			r.Header.Set("Content-Type", test.contentType)
			h.ServeHTTP(w, r)
			got[i] = w.Code
		}
		if got[0] != got[1] {
			t.Errorf("%s with content-type %q: %d, want %d as with grpc-go", test.method, test.contentType, got[1], got[0])
		}
	}
}

// TestServeHTTPWithoutHost checks that a request with neither :authority nor Host is answered.
func TestServeHTTPWithoutHost(t *testing.T) {
	for _, h := range []http.Handler{grpc.NewServer(), NewServer()} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/x.y/z", http.NoBody)
		r.Header.Set("Content-Type", "application/grpc")
		r.ProtoMajor, r.Host = 2, ""
		h.ServeHTTP(w, r)
		answer := w.Result()
		if got := answer.Header.Get("Grpc-Status") + answer.Trailer.Get("Grpc-Status"); got != "12" {
			t.Errorf("%T: the status is %q, want 12", h, got)
		}
	}
}

// TestWrongPreface checks that a client which speaks something else learns it from the answer.
func TestWrongPreface(t *testing.T) {
	target := strings.TrimPrefix(serve(t, NewServer()), "passthrough:///")
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00" + strings.Repeat("x", 2000), http2.ClientPreface[:20] + "----"} {
		nc, err := net.Dial("tcp", target)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(nc, first)
		_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := io.ReadAll(nc)
		if err != nil || !strings.Contains(string(answer), "HTTP/2 preface") {
			t.Errorf("%q is answered by %q, want the reason: %v", first[:10], answer, err)
		}
		_ = nc.Close()
	}
}

// TestHalfPrefaceIsCheap checks that a client which stops within the preface gets no connection.
func TestHalfPrefaceIsCheap(t *testing.T) {
	server := NewServer()
	target := strings.TrimPrefix(serve(t, server), "passthrough:///")
	var stuck []net.Conn
	for range 10 {
		nc, err := net.Dial("tcp", target)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		if _, err := io.WriteString(nc, http2.ClientPreface[:12]); err != nil {
			t.Fatal(err)
		}
		stuck = append(stuck, nc)
	}
	if err := ping(testContext(t), dialFast(t, target)); err != nil {
		t.Fatal(err)
	}
	if n := len(server.Conns()); n != 1 {
		t.Errorf("the server has %d connections, want that of the client which called", n)
	}
	server.Stop()
	for _, nc := range stuck {
		_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stuck connection is not closed by Stop: %v", err)
		}
	}
}

// TestTrailerAfterTheDeadline checks that a handler which sets a trailer after its deadline does not
// change the call's code. The client has no deadline of its own, so that it sees the server's code.
func TestTrailerAfterTheDeadline(t *testing.T) {
	target := serveTest(t, NewServer(), sceneServer{play: func(stream duplexServer) error {
		<-stream.Context().Done()
		stream.SetTrailer(metadata.Pairs("a", "b"))
		return status.FromContextError(stream.Context().Err()).Err()
	}})
	nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if got := statusOfCall(t, nc, "5m"); got != "4" {
		t.Errorf("grpc-status is %s, want 4 (DeadlineExceeded)", got)
	}
}

// statusOfCall makes a call with a timeout, and returns the grpc-status of the answer.
func statusOfCall(t *testing.T, nc net.Conn, timeout string) string {
	t.Helper()
	a := newAttacker(nc)
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	_ = a.WriteSettings()
	_ = a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: block(
		":method", "POST", ":scheme", "http", ":path", "/grpc.testing.TestService/FullDuplexCall", ":authority", "x",
		"content-type", "application/grpc", "te", "trailers", "grpc-timeout", timeout)})
	for {
		frame, err := a.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			for _, f := range h.Fields {
				if f.Name == "grpc-status" {
					return f.Value
				}
			}
			return "missing"
		}
	}
}
