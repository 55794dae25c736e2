package fastgrpc

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// serveByHTTP serves with net/http, in cleartext, and returns the address.
func serveByHTTP(t *testing.T, h http.Handler) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(func() { _ = server.Close() })
	return lis.Addr().String()
}

// httpServer is either library's server.
type httpServer interface {
	stopper
	http.Handler
}

// TestServeHTTP makes all kinds of calls through net/http and compares them with
// grpc-go's ServeHTTP.
func TestServeHTTP(t *testing.T) {
	var results [2][]string
	for i, s := range []httpServer{NewServer(), grpc.NewServer()} {
		new(cutService).register(s)
		testgrpc.RegisterTestServiceServer(s, whoCalls{})
		address := serveByHTTP(t, s)
		client, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range cutCalls() {
			results[i] = append(results[i], fmt.Sprintf("%s: %+v", call.name, call.do(client)))
		}
		stub := testgrpc.NewTestServiceClient(client)
		var header, trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(testContext(t), "echo", "yes")
		out, err := stub.UnaryCall(ctx, request(bytes.Repeat([]byte{7}, 1<<20)), grpc.Header(&header), grpc.Trailer(&trailer))
		results[i] = append(results[i], fmt.Sprint(len(out.GetPayload().GetBody()), header["echo"], trailer["echo-bin"], err))
		_, err = stub.EmptyCall(testContext(t), &testgrpc.Empty{})
		results[i] = append(results[i], status.Convert(err).Message())
		ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
		_, err = stub.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: -1})
		cancel()
		results[i] = append(results[i], status.Code(err).String())
		checkDuplex(testContext(t), t, stub)
		for _, contentType := range []string{"application/grpc", "text/plain"} {
			response, err := http.Post("http://"+address+"/grpc.testing.TestService/EmptyCall", contentType, strings.NewReader("")) // HTTP/1.1
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			results[i] = append(results[i], fmt.Sprint(response.StatusCode >= 400))
		}
		_ = client.Close()
		s.GracefulStop()
	}
	for n, ours := range results[0] {
		if theirs := results[1][n]; ours != theirs {
			t.Errorf("fastgrpc: %s; grpc-go: %s", ours, theirs)
		}
	}
}

// whoCalls is echo, but EmptyCall tells the peer's address without its port.
type whoCalls struct{ echo }

func (whoCalls) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	p, _ := peer.FromContext(ctx)
	host, _, err := net.SplitHostPort(p.Addr.String())
	return nil, status.Errorf(codes.Aborted, "%s %v", host, err)
}

// TestServeHTTPCancel checks that a handler behind net/http learns that its caller has
// gone, and that a stop waits for the handler.
func TestServeHTTPCancel(t *testing.T) {
	s := NewServer()
	g := gated{entered: make(chan struct{}), gate: make(chan struct{})}
	testgrpc.RegisterTestServiceServer(s, g)
	c := dialFast(t, "passthrough:///"+serveByHTTP(t, s))
	ctx, cancel := context.WithCancel(testContext(t))
	called := make(chan error, 1)
	go func() { called <- ping(ctx, c) }()
	<-g.entered
	stopped := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(stopped)
	}()
	cancel()
	if err := <-called; status.Code(err) != codes.Canceled {
		t.Errorf("the call ended with %v", err)
	}
	<-stopped // the handler has seen it, and returned
	if err := ping(testContext(t), c); status.Code(err) != codes.Unavailable {
		t.Errorf("a call after the stop: %v", err)
	}
}
