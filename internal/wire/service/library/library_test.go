package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
)

// site is the handler of the tests' servers.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // in HTTP/1.1 before the answer begins
		w.Header().Set("X-Host", r.Host)
		w.Header().Set("X-Asked", r.Method+" "+r.URL.RawQuery+" "+r.Header.Get("X-Mine")+" "+r.UserAgent())
		if status, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
			w.WriteHeader(status)
		}
		_, _ = w.Write(body)
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/else", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/echo", http.StatusFound) })
	return mux
}

// serveHTTP serves the site, and returns the definition of its wire and address.
func serveHTTP(t testing.TB, wire service.Wire, secured bool) *service.Definition {
	t.Helper()
	d := &service.Definition{Wire: wire, Network: "tcp", Authority: "shop.example"}
	plan := httpwire.ServerPlan{Version: httpwire.HTTP1, Handler: site()}
	switch wire {
	case service.HTTP2:
		plan.Version = httpwire.HTTP2
	case service.HTTP3:
		plan.Version = httpwire.HTTP3
	}
	if secured {
		identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
		if err != nil {
			t.Fatal(err)
		}
		plan.TLS = identity.ServerConfig(plan.Version.Protocols()...)
		d.TLS = &service.TLS{ServerName: "localhost", Trust: secure.Trust{RootPEM: identity.RootPEM()}}
	}
	server, err := httpwire.NewServer(plan)
	if err != nil {
		t.Fatal(err)
	}
	address, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	d.Address = address.String()
	return d
}

func open(t testing.TB, plan service.Plan) service.Client {
	t.Helper()
	if plan.Dialer == nil {
		plan.Dialer = &conn.Dialer{}
	}
	client, err := Open(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var wires = []struct {
	wire    service.Wire
	secured bool
}{{service.HTTP1, false}, {service.HTTP1, true}, {service.HTTP2, false}, {service.HTTP2, true}, {service.HTTP3, true}}

func TestHTTP(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		for _, lifecycle := range []conn.Lifecycle{conn.Kept, conn.Fresh} {
			t.Run(fmt.Sprintf("%s tls=%v lifecycle=%d", w.wire, w.secured, lifecycle), func(t *testing.T) {
				t.Parallel()
				d := serveHTTP(t, w.wire, w.secured)
				client := open(t, service.Plan{Definition: d, Connections: 2, Callers: 8, Keep: true, Lifecycle: lifecycle})
				var calls sync.WaitGroup
				for i := range 8 {
					calls.Go(func() { callEcho(t, client, i) })
				}
				calls.Wait()
			})
		}
	}
}

// callEcho makes a call, and wants all of it to arrive, and all of the answer to come back.
func callEcho(t *testing.T, client service.Client, i int) {
	var answer service.Answer
	body := strings.Repeat("x", 1000*i)
	err := client.Call(t.Context(), &service.Request{
		Method: "PUT", Path: fmt.Sprintf("/echo?i=%d&status=%d", i, 200+i),
		Header: []service.Field{{Name: "X-Mine", Value: "my own"}}, Body: []byte(body),
	}, &answer)
	if err != nil {
		t.Errorf("call %d: %v", i, err)
		return
	}
	if answer.Status != 200+i && 200+i != 204 && 200+i != 205 || string(answer.Body) != body && 200+i != 204 && 200+i != 205 || answer.Bytes != int64(len(answer.Body)) {
		t.Errorf("call %d: status %d, %d bytes", i, answer.Status, answer.Bytes)
	}
	if host := answer.Header.Get("X-Host"); host != "shop.example" {
		t.Errorf("call %d: it asked for the host %q", i, host)
	}
	if asked, want := answer.Header.Get("X-Asked"), fmt.Sprintf("PUT i=%d&status=%d my own wirelab", i, 200+i); asked != want {
		t.Errorf("call %d: it asked %q, want %q", i, asked, want)
	}
}

// Without Keep nothing is kept, and the size is that of the body all the same.
func TestHTTPWithoutLook(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		client := open(t, service.Plan{Definition: serveHTTP(t, w.wire, w.secured), Connections: 1, Callers: 1})
		var answer service.Answer
		if err := client.Call(t.Context(), &service.Request{Method: "POST", Path: "/echo", Body: make([]byte, 70_000)}, &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Status != http.StatusOK || answer.Bytes != 70_000 || answer.Body != nil || answer.Header != nil {
			t.Errorf("%s: status %d, %d bytes, kept %d and %v", w.wire, answer.Status, answer.Bytes, len(answer.Body), answer.Header)
		}
	}
}

// A redirect is an answer, and is not followed.
func TestRedirectIsAnAnswer(t *testing.T) {
	t.Parallel()
	client := open(t, service.Plan{Definition: serveHTTP(t, service.HTTP1, false), Connections: 1, Callers: 1, Keep: true})
	var answer service.Answer
	if err := client.Call(t.Context(), &service.Request{Method: "GET", Path: "/else"}, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != http.StatusFound || answer.Header.Get("Location") != "/echo" {
		t.Errorf("status %d, to %q", answer.Status, answer.Header.Get("Location"))
	}
}

// A server that never answers is given as long as the definition says.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		d := serveHTTP(t, w.wire, w.secured)
		client := open(t, service.Plan{Definition: d, Connections: 1, Callers: 1})
		d.Timeout = 30 * time.Millisecond
		err := client.Call(t.Context(), &service.Request{Method: "GET", Path: "/hang"}, &service.Answer{})
		if class := failure.Of(err); class != failure.Deadline {
			t.Errorf("%s: %v, of the class %q", w.wire, err, class)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2, service.GRPC} {
		_, err := Open(t.Context(), service.Plan{
			Definition: &service.Definition{Wire: wire, Network: "tcp", Address: address}, Connections: 1, Dialer: &conn.Dialer{},
		})
		if class := failure.Of(err); class != failure.Refused {
			t.Errorf("%s: %v, of the class %q", wire, err, class)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: site(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	client := open(t, service.Plan{Definition: &service.Definition{Wire: service.HTTP1, Network: "unix", Address: socket, Authority: "shop.example"}, Connections: 1, Keep: true})
	callEcho(t, client, 1)
}

// serveGRPC serves a method that answers each message with itself, and one that refuses:
// over HTTP/2, or over HTTP/3 as a handler.
func serveGRPC(t *testing.T, wire service.Wire) *service.Definition {
	t.Helper()
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		if method != "/test.Echo/Each" {
			return status.Error(codes.PermissionDenied, "no, 100 % no")
		}
		for {
			var message []byte
			if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
	}))
	if wire == service.GRPCH3 {
		return serveHandler(t, server)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	return &service.Definition{Wire: service.GRPC, Network: "tcp", Address: listener.Addr().String(), Authority: "shop.example"}
}

// serveHandler serves a handler over HTTP/3.
func serveHandler(t *testing.T, handler http.Handler) *service.Definition {
	t.Helper()
	identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
	if err != nil {
		t.Fatal(err)
	}
	asHTTP2 := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ProtoMajor = 2 // which is what grpc-go's handler looks for
		handler.ServeHTTP(w, r)
	})
	server, err := httpwire.NewServer(httpwire.ServerPlan{Version: httpwire.HTTP3, TLS: identity.ServerConfig("h3"), Handler: asHTTP2})
	if err != nil {
		t.Fatal(err)
	}
	address, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return &service.Definition{
		Wire: service.GRPCH3, Network: "tcp", Address: address.String(), Authority: "shop.example",
		TLS: &service.TLS{ServerName: "localhost", Trust: secure.Trust{RootPEM: identity.RootPEM()}},
	}
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	for _, wire := range []service.Wire{service.GRPC, service.GRPCH3} {
		for _, lifecycle := range []conn.Lifecycle{conn.Kept, conn.Fresh} {
			t.Run(fmt.Sprintf("%s lifecycle=%d", wire, lifecycle), func(t *testing.T) {
				t.Parallel()
				client := open(t, service.Plan{Definition: serveGRPC(t, wire), Connections: 2, Callers: 4, Keep: true, Lifecycle: lifecycle})
				for _, c := range []struct {
					method string
					stream service.Stream
					sizes  []int
					code   codes.Code
				}{
					{"Each", service.Stream{}, []int{0}, codes.OK},
					{"Each", service.Stream{}, []int{100_000}, codes.OK},
					{"Each", service.Stream{Server: true}, []int{100}, codes.OK},
					{"Each", service.Stream{Client: true, Server: true}, []int{1, 100_000, 3}, codes.OK},
					{"Refuse", service.Stream{}, []int{10}, codes.PermissionDenied},
					{"Refuse", service.Stream{Client: true, Server: true}, []int{10, 10}, codes.PermissionDenied},
				} {
					checkGRPC(t, client, c.method, c.stream, c.sizes, c.code)
				}
			})
		}
	}
}

// TestCompressedGRPC wants both ends to send gzip, and the messages to arrive as they were.
func TestCompressedGRPC(t *testing.T) {
	var told atomic.Value // what the server saw of a request's message
	registerGzip()
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var message []byte
		if err := s.RecvMsg(&message); err != nil {
			return err
		}
		return s.SendMsg(message)
	}), grpc.StatsHandler(wireSizes{&told}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	d := &service.Definition{Wire: service.GRPC, Network: "tcp", Address: listener.Addr().String(), Authority: "shop.example", Compress: true}
	client := open(t, service.Plan{Definition: d, Connections: 1, Callers: 1, Keep: true})
	body := bytes.Repeat([]byte("compress me "), 1000)
	for range 3 { // the pools are used, too
		var answer service.Answer
		if err := client.Call(t.Context(), &service.Request{Path: "/test.Echo/Each", Messages: [][]byte{body}}, &answer); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(answer.Body, body) || answer.Bytes != int64(len(body)) {
			t.Errorf("%d bytes came back of %d", len(answer.Body), len(body))
		}
	}
	if told.Load() != "compressed" {
		t.Error("the server got messages that are not compressed")
	}
}

// wireSizes notes whether a message came in fewer bytes than it has.
type wireSizes struct{ told *atomic.Value }

func (wireSizes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (wireSizes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (wireSizes) HandleConn(context.Context, stats.ConnStats)                       {}
func (w wireSizes) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, is := s.(*stats.InPayload); is && in.WireLength < in.Length {
		w.told.Store("compressed")
	}
}

func checkGRPC(t *testing.T, client service.Client, method string, stream service.Stream, sizes []int, code codes.Code) {
	t.Helper()
	request := &service.Request{Method: "POST", Path: "/test.Echo/" + method, Stream: stream}
	var bytes int64
	for i, size := range sizes {
		request.Messages = append(request.Messages, []byte(strings.Repeat(string(rune('a'+i)), size)))
		bytes += int64(size)
	}
	var answer service.Answer
	if err := client.Call(t.Context(), request, &answer); err != nil {
		t.Errorf("%s %v: %v", method, sizes, err)
		return
	}
	if codes.Code(answer.Status) != code {
		t.Errorf("%s %v: %v (%s), want %v", method, sizes, codes.Code(answer.Status), answer.Message, code)
	}
	last := request.Messages[len(sizes)-1]
	switch {
	case code != codes.OK && answer.Message != "no, 100 % no":
		t.Errorf("%s %v: the status says %q", method, sizes, answer.Message)
	case code == codes.OK && (answer.Messages != len(sizes) || answer.Bytes != bytes || string(answer.Body) != string(last)):
		t.Errorf("%s %v: %d messages of %d bytes, the last of %d", method, sizes, answer.Messages, answer.Bytes, len(answer.Body))
	}
}

// Each message's time is from the send of the one that it answers, and messages are sent at the
// pace that was asked for.
func TestMessageTimes(t *testing.T) {
	t.Parallel()
	const late, pace = 20 * time.Millisecond, 30 * time.Millisecond
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		for {
			var message []byte
			if err := s.RecvMsg(&message); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			time.Sleep(late)
			if err := s.SendMsg(message); err != nil {
				return err
			}
		}
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	d := &service.Definition{Wire: service.GRPC, Network: "tcp", Address: listener.Addr().String(), Authority: "shop.example"}
	client := open(t, service.Plan{Definition: d, Connections: 1, Callers: 1})
	request := &service.Request{
		Path: "/test.Echo/Late", Stream: service.Stream{Client: true, Server: true}, Pace: pace,
		Messages: [][]byte{[]byte("a"), []byte("b"), []byte("c")},
	}
	var answer service.Answer
	begin := time.Now()
	if err := client.Call(t.Context(), request, &answer); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 2*pace+late {
		t.Errorf("three messages %v apart took %v", pace, took)
	}
	if len(answer.Times) != 3 {
		t.Fatalf("%d times of 3 messages", len(answer.Times))
	}
	for i, took := range answer.Times {
		if took < late {
			t.Errorf("message %d took %v, and its answer was held back for %v", i, took, late)
		}
	}
	// Where only the server sends many, each is timed from the one before.
	request = &service.Request{Path: "/test.Echo/Late", Stream: service.Stream{Server: true}, Messages: [][]byte{[]byte("a")}}
	if err := client.Call(t.Context(), request, &answer); err != nil || len(answer.Times) != 1 || answer.Times[0] < late {
		t.Errorf("times %v, error %v; want one of %v or more", answer.Times, err, late)
	}
}
