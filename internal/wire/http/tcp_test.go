package httpwire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/wire/conn"
)

// expectNoneOpen gives a connection that is being closed a moment.
func expectNoneOpen(tb testing.TB, d *conn.Dialer) {
	tb.Helper()
	for wait := time.Millisecond; d.Counts().Open > 0 && wait < time.Minute; wait *= 2 {
		time.Sleep(wait)
	}
	if open := d.Counts().Open; open != 0 {
		tb.Errorf("%d connections are open", open)
	}
}

// serveTCP serves the handler until the test ends.
func serveTCP(t *testing.T, plan ServerPlan) (address string) {
	t.Helper()
	server, err := NewServer(plan)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return bound.String()
}

// keys is a server's end of TLS; httptest has a certificate ready.
func keys(t *testing.T, protocols ...string) *tls.Config {
	t.Helper()
	unstarted := httptest.NewUnstartedServer(nil)
	unstarted.StartTLS()
	defer unstarted.Close()
	return &tls.Config{Certificates: unstarted.TLS.Certificates, NextProtos: protocols, MinVersion: tls.VersionTLS13}
}

func trustAll(v Version) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", NextProtos: v.Protocols(), MinVersion: tls.VersionTLS13}
}

func clientOf(t *testing.T, plan ClientPlan) *Client {
	t.Helper()
	client, err := NewClient(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// post sends a body and returns what comes back.
func post(ctx context.Context, client *Client, plan ClientPlan, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, plan.Scheme()+"://"+plan.Address+"/", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

// TestLifecycles makes requests in each and looks at what was achieved.
func TestLifecycles(t *testing.T) {
	const requests, kept = 12, 3
	for _, version := range []Version{HTTP1, HTTP2} {
		for _, secure := range []bool{false, true} {
			for _, lifecycle := range []conn.Lifecycle{conn.Kept, conn.Fresh, conn.Resumed} {
				if lifecycle == conn.Resumed && !secure {
					continue
				}
				server := ServerPlan{Version: version, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
				counts := &conn.Dialer{}
				plan := ClientPlan{Version: version, Connections: kept, Lifecycle: lifecycle, Dialer: counts}
				if secure {
					server.TLS, plan.TLS = keys(t, version.Protocols()...), trustAll(version)
				}
				plan.Address = serveTCP(t, server)
				client := clientOf(t, plan)
				var all sync.WaitGroup
				for range requests {
					all.Go(func() {
						if answer, err := post(t.Context(), client, plan, "hello"); err != nil || answer != "hello" {
							t.Errorf("%q, %v", answer, err)
						}
					})
				}
				all.Wait()
				want := map[conn.Lifecycle]struct{ opened, resumed, firstByte int64 }{
					conn.Kept: {kept, 0, 0}, conn.Fresh: {requests + 1, 0, requests}, conn.Resumed: {requests + 1, requests, requests},
				}[lifecycle]
				if counts.Counts().Opened != want.opened || counts.Counts().Resumed != want.resumed || firstBytes(counts) != want.firstByte ||
					secure && handshakes(counts) != want.opened {
					t.Errorf("HTTP/%d, TLS %v, lifecycle %d: %d opened, %d handshakes, %d resumed, %d first bytes; want %+v", version, secure, lifecycle,
						counts.Counts().Opened, handshakes(counts), counts.Counts().Resumed, firstBytes(counts), want)
				}
				if err := client.Close(); err != nil || counts.Counts().Open != 0 {
					t.Errorf("Close: %v, and %d connections are open", err, counts.Counts().Open)
				}
				if _, err := post(t.Context(), client, plan, "late"); err == nil {
					t.Error("a closed client made a request")
				}
			}
		}
	}
}

// TestRequestsAlternateBetweenConnections wants as many on each connection.
func TestRequestsAlternateBetweenConnections(t *testing.T) {
	const connections, each = 3, 4
	var mu sync.Mutex
	seen := map[string]int{}
	counts := &conn.Dialer{}
	plan := ClientPlan{Version: HTTP2, Connections: connections, Dialer: counts, Address: serveTCP(t, ServerPlan{
		Version: HTTP2,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen[r.RemoteAddr]++
		}),
	})}
	client := clientOf(t, plan)
	for range connections * each {
		if _, err := post(t.Context(), client, plan, ""); err != nil {
			t.Fatal(err)
		}
	}
	for from, requests := range seen {
		if len(seen) != connections || requests != each {
			t.Errorf("%d connections carried requests, %s carried %d", len(seen), from, requests)
		}
	}
}

// TestCancelClosesConnectionOfUnreadResponse leaves a body open and ends the context.
func TestCancelClosesConnectionOfUnreadResponse(t *testing.T) {
	for _, version := range []Version{HTTP1, HTTP2} {
		over := make(chan struct{})
		counts := &conn.Dialer{}
		plan := ClientPlan{Version: version, Lifecycle: conn.Fresh, Dialer: counts, Address: serveTCP(t, ServerPlan{
			Version: version,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(over)
			}),
		})}
		client := clientOf(t, plan)
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+plan.Address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Fatalf("HTTP/%d: the connection stayed", version)
		}
		expectNoneOpen(t, counts)
		response.Body.Close()
	}
}

func TestImpossiblePlansAreRefused(t *testing.T) {
	noTickets := keys(t, "h2")
	noTickets.SessionTicketsDisabled = true
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		server ServerPlan
		client ClientPlan
		says   string
	}{
		"a server without tickets": {
			ServerPlan{Version: HTTP2, TLS: noTickets, Handler: ok},
			ClientPlan{Version: HTTP2, TLS: trustAll(HTTP2), Lifecycle: conn.Resumed},
			"no TLS session ticket",
		},
		"a server that has not heard of HTTP/2": {
			ServerPlan{Version: HTTP1, TLS: keys(t), Handler: ok},
			ClientPlan{Version: HTTP2, TLS: trustAll(HTTP2)},
			"does not speak HTTP/2",
		},
		"TLS where none is expected": {
			ServerPlan{Version: HTTP2, TLS: keys(t, "h2"), Handler: ok},
			ClientPlan{Version: HTTP2},
			"the server speaks TLS",
		},
		"early data on TCP": {
			ServerPlan{Version: HTTP1, TLS: keys(t), Handler: ok},
			ClientPlan{Version: HTTP1, TLS: trustAll(HTTP1), Lifecycle: conn.Early},
			"QUIC",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			counts := &conn.Dialer{}
			if c.client.Lifecycle == conn.Resumed {
				go func() { // the client waits for a ticket until its caller gives up
					for counts.Negotiated().Protocol == "" && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					cancel()
				}()
			}
			c.client.Dialer, c.client.Address = counts, serveTCP(t, c.server)
			_, err := NewClient(ctx, c.client)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("NewClient returned %v, want an error that says %q", err, c.says)
			}
			expectNoneOpen(t, counts)
		})
	}
}

// TestCleartextHTTP2RefusesHTTP1 asks it in HTTP/1.1.
func TestCleartextHTTP2RefusesHTTP1(t *testing.T) {
	address := serveTCP(t, ServerPlan{Version: HTTP2, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("HTTP/1.1 came to the handler")
	})})
	response, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusHTTPVersionNotSupported || !strings.Contains(string(body), "--http2-prior-knowledge") {
		t.Errorf("HTTP %d, %q, %v", response.StatusCode, body, err)
	}
}

// TestCloseWaitsForConnectionsNotHandlers has many idle connections, and one
// request whose handler ends long after Close.
func TestCloseWaitsForConnectionsNotHandlers(t *testing.T) {
	const connections = 200
	running, release := make(chan struct{}), make(chan struct{})
	s := newTCPServer(ServerPlan{Version: HTTP1, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(running)
		<-release
	})})
	defer close(release)
	bound, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served, ended := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.Serve() }()
	plan := ClientPlan{Version: HTTP1, Address: bound.String(), Connections: connections, Dialer: &conn.Dialer{}}
	client := clientOf(t, plan)
	go func() {
		_, err := post(context.Background(), client, plan, "")
		ended <- err
	}()
	<-running
	for s.conns.count.Load() != connections-1 { // all others will soon be idle
		runtime.Gosched()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left := s.conns.count.Load(); left != 0 {
		t.Errorf("Close left %d connections behind", left)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the request ended well")
	}
}

func TestBoundedLog(t *testing.T) {
	var out bytes.Buffer
	l := &boundedLog{to: &out}
	for range maxOtherLines + maxHandshakeLines {
		for _, line := range []string{"http: TLS handshake error from 127.0.0.1:1: EOF\n", "http: panic serving 127.0.0.1:1\n"} {
			if n, err := l.Write([]byte(line)); err != nil || n < len(line) {
				t.Fatalf("Write returned %d, %v", n, err)
			}
		}
	}
	for text, want := range map[string]int{"EOF": maxHandshakeLines, "panic": maxOtherLines, "are not shown": 2} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%q is there %d times, want %d", text, got, want)
		}
	}
}

// TestCloseDoesNotWaitForHTTP2Handlers has handlers running that Close must not wait for.
func TestCloseDoesNotWaitForHTTP2Handlers(t *testing.T) {
	var running atomic.Int64
	begun, release := make(chan struct{}, 3), make(chan struct{})
	server, err := NewServer(ServerPlan{Version: HTTP2, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		begun <- struct{}{}
		<-release
	})})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	plan := ClientPlan{Version: HTTP2, Address: bound.String(), Dialer: &conn.Dialer{}}
	client := clientOf(t, plan)
	var requests sync.WaitGroup
	for range 3 {
		requests.Go(func() {
			if _, err := post(context.Background(), client, plan, ""); err == nil {
				t.Error("a request ended well")
			}
		})
	}
	for range 3 {
		<-begun
	}
	if err := errors.Join(server.Close(), <-served); err != nil {
		t.Error(err)
	}
	requests.Wait()
	if running.Load() != 3 {
		t.Errorf("%d handlers are running", running.Load())
	}
	close(release)
}
