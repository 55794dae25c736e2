package held

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// serveEvents serves a handler over HTTP/1.1 and HTTP/2, and returns the definition of a client.
func serveEvents(t *testing.T, wire service.Wire, handler http.HandlerFunc, sequence string) *service.Definition {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	return &service.Definition{
		Wire: wire, Network: "tcp", Address: address, Authority: address, Timeout: time.Minute,
		Requests: []service.Request{{Method: http.MethodGet, Path: "/events"}},
		Holding:  &service.Holding{Exchange: service.Receive, InFlight: 1, Sequence: sequence},
	}
}

// Events come over both versions of HTTP. A stream that ends goes on after its last event, and no number
// is missing but those that the server skips.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2} {
		var streams, resumed, asked, sent atomic.Int64
		c := open(t, serveEvents(t, wire, func(w http.ResponseWriter, r *http.Request) {
			streams.Add(1)
			if r.Header.Get("Accept") == "text/event-stream" {
				asked.Add(1)
			}
			if r.Header.Get("Last-Event-ID") == "100" {
				resumed.Add(1)
			}
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for n := 1; n <= 100; n++ {
				if n == 50 {
					continue
				}
				fmt.Fprintf(w, ": comment\nid: %d\nretry: 1\ndata: {\"seq\":\ndata: %d}\n\n", n, n)
				sent.Add(1)
			}
		}, "json(.seq)"), 3)
		answers := hold(t, c, 3)
		failed := callEach(t, c, answers, 300, func(_, _ int, a *service.Answer) error {
			if a.Status != http.StatusOK || !strings.HasPrefix(string(a.Body), "{\"seq\":\n") {
				return fmt.Errorf("status %d, data %q", a.Status, a.Body)
			}
			return nil
		})
		if len(failed) > 0 {
			t.Fatalf("%s: %d calls failed: %v", wire, len(failed), failed[0])
		}
		all := c.Streams()
		if asked.Load() != streams.Load() || resumed.Load() != streams.Load()-3 || all.Reopened < 3*3 {
			t.Errorf("%s: %d streams, %d asked for events, %d named the last event; %+v", wire, streams.Load(), asked.Load(), resumed.Load(), all)
		}
		if all.Sequence.Missing < 3*3 || all.Sequence.Missing > streams.Load() || all.Ends[0].Code != "the end of the answer" {
			t.Errorf("%s: %+v, sequence %+v, of %d streams", wire, all, all.Sequence, streams.Load())
		}
	}
}

// What is not a stream of events is refused, with what was found.
func TestWrongEventAnswers(t *testing.T) {
	t.Parallel()
	for says, handler := range map[string]http.HandlerFunc{
		`the answer's Content-Type is "text/plain; charset=utf-8": want text/event-stream`: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "hello")
		},
		"the server answered 404 Not Found": http.NotFound,
	} {
		c := open(t, serveEvents(t, service.HTTP1, handler, ""), 1)
		err := c.Hold(t.Context(), 0, &c.Requests[0], &service.Answer{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("found %v, want %q", err, says)
		}
	}
}

// An endless line ends the stream, and does not fill the memory.
func TestEndlessEvent(t *testing.T) {
	t.Parallel()
	c := open(t, serveEvents(t, service.HTTP1, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for piece := strings.Repeat("x", 1<<20); r.Context().Err() == nil; {
			if _, err := fmt.Fprint(w, piece); err != nil {
				return
			}
		}
	}, ""), 1)
	failed := callEach(t, c, hold(t, c, 1), 1, nil)
	if len(failed) != 1 || !strings.Contains(failed[0].Error(), "a line of the event stream has more than 16777216 bytes") {
		t.Errorf("failed %v", failed)
	}
}

// A plan that cannot hold streams says what to change.
func TestCheck(t *testing.T) {
	t.Parallel()
	stream := func(client, server bool) service.Stream { return service.Stream{Client: client, Server: server} }
	for says, d := range map[string]service.Definition{
		"leave out --http 3":                                    {Wire: service.GRPCH3, Holding: &service.Holding{}},
		`--exchange: found "ask"`:                               {Wire: service.WebSocket, Holding: &service.Holding{Exchange: "ask"}},
		"is a unary method":                                     {Wire: service.GRPC, Holding: &service.Holding{Exchange: service.Receive}},
		"--exchange answer: a.B/C streams in one direction":     {Wire: service.GRPC, Requests: []service.Request{{Path: "/a.B/C", Stream: stream(true, false)}}, Holding: &service.Holding{Exchange: service.Answers}},
		"the server of a.B/C sends only one message":            {Wire: service.GRPC, Requests: []service.Request{{Path: "/a.B/C", Stream: stream(true, false)}}, Holding: &service.Holding{Exchange: service.Receive}},
		"each call of a.B/C sends only one message":             {Wire: service.GRPC, Requests: []service.Request{{Path: "/a.B/C", Stream: stream(false, true)}}, Holding: &service.Holding{Exchange: service.Send}},
		"only receives server-sent events":                      {Wire: service.HTTP1, Holding: &service.Holding{Exchange: service.Answers, InFlight: 1}},
		"there is no message to send: give it with -d":          {Wire: service.WebSocket, Holding: &service.Holding{Exchange: service.Answers, InFlight: 1}},
		"--inflight-per-stream: found 0: want 1 to 1024":        {Wire: service.WebSocket, Holding: &service.Holding{Exchange: service.Receive}},
		"--inflight-per-stream: only an exchange":               {Wire: service.WebSocket, Holding: &service.Holding{Exchange: service.Receive, InFlight: 2}},
		"--open-rate: found -1":                                 {Wire: service.WebSocket, Holding: &service.Holding{Exchange: service.Receive, InFlight: 1, OpenPerSecond: -1}},
		"--match finds the answers":                             {Wire: service.WebSocket, Holding: &service.Holding{Exchange: service.Receive, InFlight: 1, Match: "json(.id)"}},
		"--sent-at: column 6":                                   {Wire: service.WebSocket, Holding: &service.Holding{Exchange: service.Receive, InFlight: 1, SentAt: "json(t)"}},
		`--sequence: found "status": a message has only a body`: {Wire: service.WebSocket, Holding: &service.Holding{Exchange: service.Receive, InFlight: 1, Sequence: "status"}},
		"--traceparent marks requests":                          {Wire: service.WebSocket, Trace: &service.Trace{}, Holding: &service.Holding{Exchange: service.Receive, InFlight: 1}},
	} {
		if len(d.Requests) == 0 {
			d.Requests = []service.Request{{Path: "/a.B/C"}}
		}
		if err := Check(&d); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("found %v, want %q", err, says)
		}
	}
	if _, err := Open(t.Context(), service.Plan{Lifecycle: conn.Fresh, Definition: &service.Definition{
		Wire: service.WebSocket, Requests: []service.Request{{}}, Holding: &service.Holding{Exchange: service.Receive, InFlight: 1},
	}}); err == nil || !strings.Contains(err.Error(), "leave out --conn") {
		t.Errorf("one connection per call: found %v", err)
	}
}
