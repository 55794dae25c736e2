package catalog

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
	grpcwire "wirelab.dev/rpc/call/wire"
)

// A countingServer counts the requests that reach it, and ends some of them badly.
type countingServer struct {
	seen, cut  atomic.Int64
	resetEvery int64 // every such request ends without an answer; 0 means none
	answer     string
	closeAfter int64 // a connection of HTTP/1.1 closes after this many answers, without a word; 0 means never
}

type onConnection struct{ answers atomic.Int64 }

type connectionKey struct{}

func (s *countingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.seen.Add(1)
	if s.resetEvery > 0 && n%s.resetEvery == 0 {
		s.cut.Add(1)
		if hijacker, is := w.(http.Hijacker); is && r.ProtoMajor == 1 {
			raw, _, _ := hijacker.Hijack()
			_ = findTCP(raw).SetLinger(0) // Close then sends RST
			_ = raw.Close()
			return
		}
		panic(http.ErrAbortHandler)
	}
	if on, is := r.Context().Value(connectionKey{}).(*onConnection); is && s.closeAfter > 0 && on.answers.Add(1) == s.closeAfter {
		raw, buffered, _ := w.(http.Hijacker).Hijack()
		_, _ = buffered.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_ = buffered.Flush()
		_ = raw.Close()
		return
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(grpcwire.AppendMessage(nil, []byte(s.answer)))
		w.Header().Set("Grpc-Status", "0")
		return
	}
	_, _ = io.WriteString(w, s.answer)
}

func findTCP(raw net.Conn) *net.TCPConn {
	for {
		switch wrapped := raw.(type) {
		case *net.TCPConn:
			return wrapped
		case interface{ NetConn() net.Conn }:
			raw = wrapped.NetConn()
		}
	}
}

// serve returns the definition of a service that the handler serves.
func (s *countingServer) serve(t *testing.T, wire service.Wire) *service.Definition {
	t.Helper()
	d := &service.Definition{Wire: wire, Network: "tcp", Authority: "shop.example"}
	if wire == service.HTTP1 {
		server := httptest.NewUnstartedServer(s)
		server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, &onConnection{})
		}
		server.Start()
		t.Cleanup(server.Close)
		d.Address = server.Listener.Addr().String()
		return d
	}
	plan := httpwire.ServerPlan{Version: wire.Version(), Handler: s}
	if plan.Version == httpwire.HTTP3 {
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

// TestTheServerCountsTheSame wants each request of a load to reach the server once, whatever the
// engine, the protocol and the method, and every further attempt to be counted.
func TestTheServerCountsTheSame(t *testing.T) {
	t.Parallel()
	const callers, each = 4, 100
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2, service.HTTP3, service.GRPC, service.GRPCH3} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST"} {
			for _, faults := range []*countingServer{{resetEvery: 20}, {closeAfter: 7}, {}} {
				switch {
				case wire.IsGRPC() && method != "POST", wire != service.HTTP1 && faults.closeAfter > 0:
					continue // gRPC has one method, and only HTTP/1.1 cannot say that a connection ends
				}
				for _, library := range []bool{false, true} {
					for _, retry := range []int{0, 3} {
						name := fmt.Sprintf("%s %s reset=%d close=%d library=%v retry=%d", wire, method, faults.resetEvery, faults.closeAfter, library, retry)
						t.Run(name, func(t *testing.T) {
							t.Parallel()
							server := &countingServer{resetEvery: faults.resetEvery, closeAfter: faults.closeAfter}
							d := server.serve(t, wire)
							d.Retry, d.Requests = retry, []service.Request{{Method: method, Path: "/shop.v1.Shop/Get", Messages: [][]byte{nil}}}
							if method != "GET" && method != "HEAD" && !wire.IsGRPC() {
								d.Requests[0].Body = []byte("x")
							}
							checkCounts(t, server, d, library, callers, each)
						})
					}
				}
			}
		}
	}
}

func checkCounts(t *testing.T, server *countingServer, d *service.Definition, library bool, callers, each int) {
	client, err := Open(t.Context(), service.Plan{Definition: d, Connections: callers, Callers: callers, Keep: library, Dialer: &conn.Dialer{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	opening := server.seen.Load()
	var resent, failed, unseen atomic.Int64
	var examples sync.Map
	var all sync.WaitGroup
	for number := range callers {
		all.Go(func() {
			caller := d.NewCaller(client, d.FixedSource(service.Share{Number: number, Of: callers, Seed: 1}))
			for range each {
				err := caller.Call(t.Context())
				resent.Add(int64(caller.Resent()))
				if err == nil {
					continue
				}
				failed.Add(1)
				class := failure.Of(err)
				if class == failure.IdleClosed || class == failure.StreamRefused {
					unseen.Add(1)
				}
				examples.Store(class, err)
			}
		})
	}
	all.Wait()
	total, seen := int64(callers*each), server.seen.Load()-opening
	told := fmt.Sprintf("%d requests, %d sent again, %d failed, %d of them not seen by the server; the server saw %d and cut %d",
		total, resent.Load(), failed.Load(), unseen.Load(), seen, server.cut.Load())
	examples.Range(func(class, err any) bool {
		told += fmt.Sprintf("\n%v: %v", class, err)
		return true
	})
	if server.closeAfter > 0 {
		// A request that crosses the end of its connection may be unseen, and be sent again unseen.
		if seen > total+resent.Load() || seen < total-failed.Load() || resent.Load() == 0 && seen+failed.Load() != total {
			t.Error(told)
		}
		return
	}
	if seen != total+resent.Load()-unseen.Load() {
		t.Error(told)
	}
	if d.Retry == 0 && failed.Load()-unseen.Load() != server.cut.Load() || d.Retry > 0 && server.cut.Load() > resent.Load()+failed.Load() || server.resetEvery == 0 && failed.Load() > 0 {
		t.Error(told)
	}
}

// TestCallBytes counts the bytes of answers of a known length.
func TestCallBytes(t *testing.T) {
	t.Parallel()
	const calls, answer = 100, "hello"
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2, service.HTTP3, service.GRPC, service.GRPCH3} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			for _, library := range []bool{false, true} {
				if wire.IsGRPC() && method != "POST" {
					continue
				}
				t.Run(fmt.Sprintf("%s %s library=%v", wire, method, library), func(t *testing.T) {
					t.Parallel()
					d := (&countingServer{answer: answer}).serve(t, wire)
					d.Requests = []service.Request{{Method: method, Path: "/shop.v1.Shop/Get"}}
					want := record.CallBytes{Calls: calls, ReceivedBodyBytes: calls * int64(len(answer))}
					switch {
					case wire.IsGRPC():
						d.Requests[0].Messages, want.SentBodyBytes = [][]byte{[]byte("hi")}, 2*calls
					case method == "POST":
						d.Requests[0].Body, want.SentBodyBytes = []byte("hi"), 2*calls
					case method == "HEAD":
						want.ReceivedBodyBytes = 0
					}
					client, err := Open(t.Context(), service.Plan{Definition: d, Connections: 1, Callers: 1, Keep: library, Dialer: &conn.Dialer{}})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = client.Close() })
					caller, got := d.NewCaller(client, d.FixedSource(service.Share{Of: 1})), record.CallBytes{}
					for range calls {
						if err := caller.Call(t.Context()); err != nil {
							t.Fatal(err)
						}
						caller.AddBytes(&got)
					}
					if known := wire == service.HTTP1 && !library; known != (got.HeaderCalls == calls) || got.SentHeaderBytes%calls != 0 || caller.Sent() != calls {
						t.Errorf("headers: %+v; %d sent", got, caller.Sent())
					}
					want.HeaderCalls, want.SentHeaderBytes, want.ReceivedHeaderBytes = got.HeaderCalls, got.SentHeaderBytes, got.ReceivedHeaderBytes
					if got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
				})
			}
		}
	}
}
