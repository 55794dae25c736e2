package prepared

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
)

// echo answers as the request's path says, with the number of bytes that it names.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/chunked":
		for _, b := range body {
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
		}
	case "/early":
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = w.Write(body)
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/close":
		w.Header().Set("Connection", "close")
		_, _ = w.Write(body)
	case "/size":
		n, _ := strconv.Atoi(r.URL.RawQuery)
		w.Header().Set("Content-Length", strconv.Itoa(n))
		if r.Method != http.MethodHead {
			_, _ = w.Write(make([]byte, n))
		}
	case "/header":
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.Header.Get("X-Own"), r.UserAgent())
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func planFor(server *httptest.Server, wire service.Wire, requests ...service.Request) service.Plan {
	return service.Plan{Definition: &service.Definition{Wire: wire, Network: "tcp", Address: server.Listener.Addr().String(), Requests: requests}}
}

type want struct {
	request service.Request
	status  int
	bytes   int64
}

// Bodies of these sizes take every path of the buffers and of the sending.
var wants = []want{
	{service.Request{Method: "GET", Path: "/size?64"}, 200, 64},
	{service.Request{Method: "GET", Path: "/size?4096"}, 200, 4096},
	{service.Request{Method: "GET", Path: "/size?3000000"}, 200, 3000000},
	{service.Request{Method: "HEAD", Path: "/size?64"}, 200, 0},
	{service.Request{Method: "POST", Path: "/chunked", Body: []byte("hello")}, 200, 5},
	{service.Request{Method: "PUT", Path: "/early", Body: bytes.Repeat([]byte("x"), 100_000)}, 200, 100_000},
	{service.Request{Method: "POST", Path: "/early", Body: bytes.Repeat([]byte("x"), 8<<20)}, 200, 8 << 20},
	{service.Request{Method: "POST", Path: "/none"}, 204, 0},
	{service.Request{Method: "GET", Path: "/close"}, 200, 0},
	{service.Request{Method: "GET", Path: "/header", Header: []service.Field{{Name: "x-own", Value: "mine"}}}, 200, int64(len("GET test.example mine wirelab"))},
	{service.Request{Method: "GET", Path: "/nothing"}, 404, 0},
}

// callAll makes every wanted call a few times.
func callAll(t *testing.T, client service.Client, d *service.Definition, answer *service.Answer) {
	t.Helper()
	for round := range 2 {
		for i, w := range wants {
			if err := client.Call(t.Context(), &d.Requests[i], answer); err != nil {
				t.Fatalf("round %d, %s %s: %v", round, w.request.Method, w.request.Path, err)
			}
			if answer.Status != w.status || answer.Bytes != w.bytes {
				t.Errorf("%s %s: status %d and %d bytes, want %d and %d", w.request.Method, w.request.Path, answer.Status, answer.Bytes, w.status, w.bytes)
			}
		}
	}
}

func wanted() (requests []service.Request) {
	for _, w := range wants {
		requests = append(requests, w.request)
	}
	return requests
}

func TestHTTP1(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	plan := planFor(server, service.HTTP1, wanted()...)
	client, counts := open(t, plan)
	callAll(t, client, plan.Definition, &service.Answer{})
	if n := counts.Counts().Opened; n != 1+2 {
		t.Errorf("%d connections, want one, and one after each of 2 answers that closed it", n)
	}
	if counts.Negotiated().Protocol != "h1" {
		t.Errorf("protocol %v", counts.Negotiated().Protocol)
	}
}

// secured returns a server's TLS, and what a client needs for it.
func secured(t *testing.T, protocols ...string) (*tls.Config, *service.TLS) {
	t.Helper()
	identity, err := secure.Issue(secure.Choice{Certificate: secure.ECDSA}, secure.NoFlaw)
	if err != nil {
		t.Fatal(err)
	}
	return identity.ServerConfig(protocols...), &service.TLS{ServerName: "localhost", Trust: secure.Trust{RootPEM: identity.RootPEM()}}
}

func TestHTTP1OverTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	var trust *service.TLS
	server.TLS, trust = secured(t, "http/1.1")
	server.StartTLS()
	defer server.Close()
	plan := planFor(server, service.HTTP1, wanted()...)
	plan.TLS = trust
	client, counts := open(t, plan)
	callAll(t, client, plan.Definition, &service.Answer{})
	if n := counts.Counts().Full + counts.Counts().Resumed; n != 1+2 {
		t.Errorf("%d handshakes", n)
	}
}

func TestHTTP1OverUnixSocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.Listener = listener
	server.Start()
	defer server.Close()
	plan := planFor(server, service.HTTP1, wanted()...)
	plan.Network = "unix"
	client, _ := open(t, plan)
	callAll(t, client, plan.Definition, &service.Answer{})
}

// Many callers share few connections, and none starves.
func TestHTTP1CallersWaitForAConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	plan := planFor(server, service.HTTP1, service.Request{Method: "GET", Path: "/size?10"})
	plan.Connections, plan.Callers = 3, 20
	client, counts := open(t, plan)
	var callers sync.WaitGroup
	for range plan.Callers {
		callers.Go(func() {
			var answer service.Answer
			for range 50 {
				if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil || answer.Bytes != 10 {
					t.Errorf("%v, %d bytes", err, answer.Bytes)
					return
				}
			}
		})
	}
	callers.Wait()
	if n := counts.Counts().Opened; n != 3 {
		t.Errorf("%d connections", n)
	}
}

// script is a server that answers each connection with a function of its own.
func script(t *testing.T, serve ...func(net.Conn)) service.Plan {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ; i++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			running.Go(func() {
				defer conn.Close()
				serve[min(i, len(serve)-1)](conn)
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); running.Wait() })
	return service.Plan{Definition: &service.Definition{
		Wire: service.HTTP1, Address: listener.Addr().String(), Timeout: patience,
		Requests: []service.Request{{Method: "GET", Path: "/"}, {Method: "POST", Path: "/", Body: make([]byte, 32<<20)}},
	}}
}

// read reads one request's head.
func read(conn net.Conn) {
	var seen []byte
	for one := make([]byte, 1); !bytes.HasSuffix(seen, []byte("\r\n\r\n")); seen = append(seen, one[0]) {
		if _, err := conn.Read(one); err != nil {
			return
		}
	}
}

// say reads a request and answers with some text.
func say(text string) func(net.Conn) {
	return func(conn net.Conn) {
		read(conn)
		_, _ = io.WriteString(conn, text)
	}
}

// hold answers and keeps the connection open until the client closes it.
func hold(text string) func(net.Conn) {
	return func(conn net.Conn) {
		say(text)(conn)
		_, _ = io.Copy(io.Discard, conn)
	}
}

const good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

func TestHTTP1Failures(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		want  failure.Class
		says  string
	}{
		{"closes", say(""), failure.Closed, "without an answer"},
		{"closes in the head", say("HTTP/1.1 200 OK\r\n"), failure.Closed, "in the middle of an answer"},
		{"closes in the body", say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"), failure.Closed, "in the middle of an answer, after 2 bytes"},
		{"resets", func(conn net.Conn) { read(conn); _ = conn.(*net.TCPConn).SetLinger(0) }, failure.Reset, ""},
		{"another protocol", hold("SSH-2.0-OpenSSH_9.6\r\n"), failure.WrongProtocol, "SSH"},
		{"HTTP/2", hold("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), failure.WrongProtocol, ""},
		{"TLS", hold("\x15\x03\x01\x00\x02\x02\x16"), failure.PlaintextPeer, "speaks TLS"},
		{"interim answers for ever", func(conn net.Conn) {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
			}
		}, failure.WrongProtocol, "interim"},
		{"a head for ever", func(conn net.Conn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for err == nil {
				_, err = io.WriteString(conn, "A: b\r\n")
			}
		}, failure.WrongProtocol, "header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := script(t, c.serve)
			client, _ := open(t, plan)
			err := client.Call(t.Context(), &plan.Requests[0], &service.Answer{})
			if got := failure.Of(err); got != c.want || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("class %q, want %q: %v", got, c.want, err)
			}
		})
	}
}

func TestHTTP1RefusedConnection(t *testing.T) {
	plan := script(t, say(good))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plan.Address = listener.Addr().String()
	_ = listener.Close()
	if _, _, err := tryOpen(t, plan); failure.Of(err) != failure.Refused {
		t.Errorf("%v", err)
	}
}

// Answers that are whole, on connections that cannot go on: the next call opens another.
func TestHTTP1OpensAnotherConnection(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		bytes        int64
	}{
		{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", 2},
		{"to the end", "HTTP/1.1 200 OK\r\n\r\nhello", 5},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 2},
		{"garbage behind it", good + "garbage", 2},
		{"a second answer", good + good, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := script(t, say(c.answer))
			client, counts := open(t, plan)
			var answer service.Answer
			for range 5 {
				if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil || answer.Status != 200 || answer.Bytes != c.bytes {
					t.Fatalf("%v: status %d, %d bytes", err, answer.Status, answer.Bytes)
				}
			}
			if n := counts.Counts().Opened; n != 5 {
				t.Errorf("%d connections for 5 calls", n)
			}
		})
	}
}

// A server closes each connection after an answer, and does not say so. A call after a pause opens another
// connection. A call that begins at once fails, since no request is sent twice; after that, the calls look first.
func TestHTTP1ClosedBetweenCalls(t *testing.T) {
	plan := script(t, say(good))
	client, counts := open(t, plan)
	h1 := client.(*h1Client)
	var answer service.Answer
	for range 5 {
		if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil {
			t.Fatal(err)
		}
		for s := h1.slots[0]; !conn.HasPeerClosed(s.nc) || clock.Now()-s.last < unwatchedTime; {
			runtime.Gosched()
		}
		h1.closesKept.Store(false)
	}
	if n := counts.Counts().Opened; n != 5 {
		t.Errorf("%d connections for 5 calls", n)
	}
	var err error
	awaitClosed := func() {
		for !conn.HasPeerClosed(h1.slots[0].nc) {
			runtime.Gosched()
		}
		h1.slots[0].last = clock.Now()
	}
	for err == nil { // until a call begins so soon that the slot does not look
		h1.closesKept.Store(false)
		awaitClosed()
		err = client.Call(t.Context(), &plan.Requests[0], &answer)
	}
	if class := failure.Of(err); class != failure.IdleClosed {
		t.Errorf("class %q: %v", class, err)
	}
	for call := range 20 {
		if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil {
			t.Errorf("call %d after the failure: %v", call, err)
		}
		awaitClosed()
	}
}

// A server may answer a long request before it has come, and read no more.
func TestHTTP1EarlyAnswer(t *testing.T) {
	plan := script(t, func(conn net.Conn) {
		say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")(conn)
		<-t.Context().Done()
	})
	client, _ := open(t, plan)
	var answer service.Answer
	if err := client.Call(t.Context(), &plan.Requests[1], &answer); err != nil || answer.Status != 413 {
		t.Errorf("%v: status %d", err, answer.Status)
	}
}

// Silent servers, and those that never finish, are left after the timeout.
func TestHTTP1Timeout(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"silent":          hold(""),
		"stops in a body": hold("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"),
		"endless body": func(conn net.Conn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			for more := make([]byte, 64<<10); err == nil; {
				_, err = conn.Write(more)
			}
		},
		"endless chunks": func(conn net.Conn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for err == nil {
				_, err = io.WriteString(conn, strings.Repeat("1\r\nx\r\n", 1000))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := script(t, serve)
			plan.Timeout = 50 * time.Millisecond
			client, counts := open(t, plan)
			began := time.Now()
			var answer service.Answer
			for late := 0; late < 2; {
				err := client.Call(t.Context(), &plan.Requests[0], &answer)
				if failed := (*net.OpError)(nil); errors.As(err, &failed) && failed.Op == "dial" {
					continue // on a busy machine, even connecting may take that long
				}
				late++
				if failure.Of(err) != failure.Deadline {
					t.Errorf("%v", err)
				}
			}
			if took := time.Since(began); took < 2*plan.Timeout {
				t.Errorf("gave up after %v", took)
			}
			if n := counts.Counts().Opened; n != 2 {
				t.Errorf("%d connections: one that timed out carries no further call", n)
			}
		})
	}
}

// The end of a call's context, and of the client, ends calls: also those that wait for a
// connection.
func TestHTTP1CallsEnd(t *testing.T) {
	for name, end := range map[string]func(client service.Client, cancel func()){
		"cancelled": func(_ service.Client, cancel func()) { cancel() },
		"closed":    func(client service.Client, _ func()) { _ = client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			isAsked := sync.OnceFunc(func() { close(asked) }) // a request may be sent once more
			plan := script(t, func(conn net.Conn) {
				read(conn)
				isAsked()
				_, _ = io.Copy(io.Discard, conn)
			})
			plan.Callers = 2
			counts := &conn.Dialer{}
			plan.Dialer, plan.Network, plan.Connections, plan.Authority = counts, "tcp", 1, "test.example"
			client, err := Open(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error)
			for range 2 {
				go func() { failed <- client.Call(ctx, &plan.Requests[0], &service.Answer{}) }()
			}
			<-asked
			end(client, cancel)
			for range 2 {
				if err := <-failed; err == nil || name == "cancelled" && failure.Of(err) != failure.Cancelled {
					t.Errorf("%v", err)
				}
			}
			if name == "cancelled" {
				_ = client.Close()
			}
		})
	}
}

func TestWhatCannotBePrepared(t *testing.T) {
	for name, change := range map[string]func(*service.Plan){
		"kept answers": func(p *service.Plan) { p.Keep = true },
		"varied":       func(p *service.Plan) { p.Varied = true },
		"fresh HTTP/2": func(p *service.Plan) { p.Wire, p.Lifecycle = service.HTTP2, conn.Fresh },
		"HTTP/3":       func(p *service.Plan) { p.Wire = service.HTTP3 },
		"CONNECT":      func(p *service.Plan) { p.Requests[0].Method = "CONNECT" },
		"streams":      func(p *service.Plan) { p.Wire, p.Requests[0].Stream.Server = service.GRPC, true },
	} {
		plan := service.Plan{Definition: &service.Definition{Wire: service.HTTP1, Requests: []service.Request{{Method: "GET", Path: "/"}}}}
		if err := CheckPlan(plan); err != nil {
			t.Fatal(err)
		}
		if change(&plan); !errors.Is(CheckPlan(plan), errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, CheckPlan(plan))
		}
	}
}

// Nothing that a user writes becomes another request.
func TestBadRequestsAreRefused(t *testing.T) {
	for _, r := range []service.Request{
		{Method: "GET /", Path: "/"},
		{Method: "GET", Path: "/a b"},
		{Method: "GET", Path: "/a\r\nX: y"},
		{Method: "GET", Path: "http://x/"},
		{Method: "GET", Path: "/", Header: []service.Field{{Name: "A", Value: "b\r\nC: d"}}},
		{Method: "GET", Path: "/", Header: []service.Field{{Name: "A B", Value: "c"}}},
	} {
		plan := script(t, say(good))
		plan.Requests = []service.Request{r}
		if _, _, err := tryOpen(t, plan); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
}
