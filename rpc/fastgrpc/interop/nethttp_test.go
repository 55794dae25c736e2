package interop

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/rpc/fastgrpc"
)

// protocols is HTTP/2 in cleartext, and with TLS.
func protocols() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// TestServeHTTP runs the cases, and uploads that renew a window thousands of times, where
// net/http's server has one library's service and the other library calls it.
func TestServeHTTP(t *testing.T) {
	t.Parallel()
	theirs := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(theirs, interop.NewTestServer())
	for _, c := range []struct {
		name    string
		handler http.Handler
		connect func(t *testing.T, address string, creds credentials.TransportCredentials) *grpc.ClientConn
		without []string
	}{
		{"grpc-go's handler", theirs, channel, []string{"pick_first_unary"}}, // it does not say its name
		{"fastgrpc's handler", NewServer(), theirChannel, nil},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s tls=%v", c.name, secure), func(t *testing.T) {
				address, creds := serveHTTP(t, c.handler, secure)
				cc := c.connect(t, address, creds)
				runCases(t, cc, c.without...)
				// net/http renews both windows at every 4 KiB that a handler reads.
				upload(t, cc, 10000, 4<<10)
				upload(t, cc, 800, 256<<10)
			})
		}
	}
}

// serveHTTP starts a server and returns its address and a client's credentials for it.
func serveHTTP(t *testing.T, handler http.Handler, secure bool) (string, credentials.TransportCredentials) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, Protocols: protocols()}
	creds := insecure.NewCredentials()
	serve := func() error { return server.Serve(lis) }
	if secure {
		certificate, key := testdata(t, "server1.pem"), testdata(t, "server1.key")
		serve = func() error { return server.ServeTLS(lis, certificate, key) }
		if creds, err = credentials.NewClientTLSFromFile(testdata(t, "ca.pem"), "foo.test.google.fr"); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = serve() }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return lis.Addr().String(), creds
}

func theirChannel(t *testing.T, address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// TestHTTPClient calls fastgrpc's server with net/http's client.
func TestHTTPClient(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			var opts []fastgrpc.ServerOption
			scheme := "http"
			if secure {
				creds, err := credentials.NewServerTLSFromFile(testdata(t, "server1.pem"), testdata(t, "server1.key"))
				if err != nil {
					t.Fatal(err)
				}
				opts, scheme = append(opts, fastgrpc.Creds(creds)), "https"
			}
			transport := &http.Transport{
				Protocols:       protocols(),
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the test's own certificate
				// Less than a response that is broken off, or all of it may have come before it is.
				HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20},
			}
			t.Cleanup(transport.CloseIdleConnections)
			c := &httpCaller{client: &http.Client{Transport: transport}, url: scheme + "://" + serve(t, opts...) + "/grpc.testing.TestService/"}
			t.Run("calls at once", func(t *testing.T) { c.atOnce(t) })
			t.Run("download", func(t *testing.T) { c.download(t) })
			t.Run("upload", func(t *testing.T) { c.upload(t) })
			t.Run("cancelled", func(t *testing.T) { c.cancelled(t) })
			t.Run("unknown", func(t *testing.T) { c.unknown(t) })
		})
	}
}

// httpCaller makes gRPC calls by hand.
type httpCaller struct {
	client *http.Client
	url    string
}

// message is a gRPC message with its prefix.
func message(m proto.Message) []byte {
	body, err := proto.Marshal(m)
	if err != nil {
		panic(err) // a test's own message
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

func (c *httpCaller) call(ctx context.Context, method string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+method, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	return c.client.Do(request)
}

// whole makes a call and returns its response's size and status.
func (c *httpCaller) whole(ctx context.Context, method string, body io.Reader) (size int, status string, err error) {
	response, err := c.call(ctx, method, body)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	status = response.Trailer.Get("Grpc-Status")
	if status == "" {
		status = response.Header.Get("Grpc-Status") // of a response that is only trailers
	}
	return len(content), status, err
}

func (c *httpCaller) atOnce(t *testing.T) {
	// Without a connection, net/http's client opens one for each call and keeps one of them.
	if _, status, err := c.whole(t.Context(), "EmptyCall", bytes.NewReader(message(&testgrpc.Empty{}))); err != nil || status != "0" {
		t.Fatalf("status %q, error %v", status, err)
	}
	var calls sync.WaitGroup
	for i := range 2000 { // twice as many as one connection has at a time
		calls.Go(func() {
			size := 10 * i
			got, status, err := c.whole(t.Context(), "UnaryCall", bytes.NewReader(message(&testgrpc.SimpleRequest{ResponseSize: int32(size)})))
			if err != nil || status != "0" || got < size {
				t.Errorf("%d bytes of %d, status %q, error %v", got, size, status, err)
			}
		})
	}
	calls.Wait()
}

func (c *httpCaller) download(t *testing.T) {
	request := &testgrpc.StreamingOutputCallRequest{}
	const messages, size = 400, 256 << 10
	for range messages {
		request.ResponseParameters = append(request.ResponseParameters, &testgrpc.ResponseParameters{Size: size})
	}
	got, status, err := c.whole(t.Context(), "StreamingOutputCall", bytes.NewReader(message(request)))
	if err != nil || status != "0" || got < messages*size {
		t.Errorf("%d bytes of %d, status %q, error %v", got, messages*size, status, err)
	}
}

func (c *httpCaller) upload(t *testing.T) {
	const messages, size = 10000, 4 << 10
	one := message(&testgrpc.StreamingInputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, size)}})
	body, sends := io.Pipe()
	go func() { // ends with the body
		for range messages {
			if _, err := sends.Write(one); err != nil {
				return
			}
		}
		_ = sends.Close()
	}()
	want := len(message(&testgrpc.StreamingInputCallResponse{AggregatedPayloadSize: messages * size}))
	if got, status, err := c.whole(t.Context(), "StreamingInputCall", body); err != nil || status != "0" || got != want {
		t.Errorf("a response of %d bytes, want %d, status %q, error %v", got, want, status, err)
	}
}

// cancelled breaks many calls off in the middle, and then wants one to end well.
func (c *httpCaller) cancelled(t *testing.T) {
	request := &testgrpc.StreamingOutputCallRequest{ResponseParameters: []*testgrpc.ResponseParameters{{Size: 1 << 20}, {Size: 1 << 20}, {Size: 1 << 20}}}
	const calls = 500
	failures := make(chan error, calls)
	for range calls {
		go func() { failures <- c.breakOff(t.Context(), request) }() // ends with the call
	}
	var all []error
	for range calls {
		if err := <-failures; err != nil {
			all = append(all, err)
		}
	}
	if len(all) > 0 {
		t.Errorf("%d of %d failed, the first with %v", len(all), calls, all[0])
	}
	if _, status, err := c.whole(t.Context(), "StreamingOutputCall", bytes.NewReader(message(request))); err != nil || status != "0" {
		t.Errorf("afterwards: status %q, error %v", status, err)
	}
}

// breakOff cancels a call in the middle of its response.
func (c *httpCaller) breakOff(ctx context.Context, request proto.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.call(ctx, "StreamingOutputCall", bytes.NewReader(message(request)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.CopyN(io.Discard, response.Body, 1000); err != nil {
		return err
	}
	cancel()
	if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("a cancelled call ended with: %w", cmp.Or(err, io.EOF))
	}
	return nil
}

func (c *httpCaller) unknown(t *testing.T) {
	if _, status, err := c.whole(t.Context(), "None", nil); err != nil || status != "12" {
		t.Errorf("status %q, error %v", status, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"EmptyCall", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode < 400 {
		t.Errorf("a GET gets %s", response.Status)
	}
}
