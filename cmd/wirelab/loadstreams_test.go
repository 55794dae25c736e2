package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/internal/data/record"
)

// streamCounts counts what happened on the streams of a path of the site.
type streamCounts struct{ accepted, received, sent atomic.Int64 }

var streamsOf sync.Map // path → *streamCounts

func countsOf(path string) *streamCounts {
	c, _ := streamsOf.LoadOrStore(path, &streamCounts{})
	return c.(*streamCounts)
}

// serveStreams adds streams to a site that fail in a known way. The first stream on each path is that of
// the first call.
func serveStreams(site *http.ServeMux) {
	socket := func(path string, each func(c *websocket.Conn, stream, number int64, message []byte) bool) {
		site.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()
			counts := countsOf(path)
			stream := counts.accepted.Add(1) - 1
			for number := int64(1); ; number++ {
				_, message, err := c.Read(r.Context())
				if err != nil {
					return
				}
				counts.received.Add(1)
				if !each(c, stream, number, message) {
					continue
				}
				if c.Write(r.Context(), websocket.MessageText, message) != nil {
					return
				}
				counts.sent.Add(1)
			}
		})
	}
	socket("/chat", func(*websocket.Conn, int64, int64, []byte) bool { return true })
	socket("/ws/echo", func(*websocket.Conn, int64, int64, []byte) bool { return true })
	socket("/ws/dropping", func(_ *websocket.Conn, _, number int64, _ []byte) bool { return number != 100 })
	socket("/ws/slow", func(_ *websocket.Conn, stream, _ int64, _ []byte) bool {
		time.Sleep(2 * time.Millisecond)
		if stream == 8 {
			time.Sleep(200 * time.Millisecond)
		}
		return true
	})
	socket("/ws/silent", func(*websocket.Conn, int64, int64, []byte) bool { return false })
	site.HandleFunc("/ws/feed", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		countsOf("/ws/feed").accepted.Add(1)
		if _, message, err := c.Read(r.Context()); err != nil || string(message) != `{"subscribe":"ticks"}` {
			_ = c.Close(websocket.StatusPolicyViolation, "subscribe first")
			return
		}
		for n := 1; n <= 100; n++ {
			if c.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, `{"seq":%d}`, n)) != nil {
				return
			}
		}
		_ = c.Close(websocket.StatusGoingAway, "")
	})
	site.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := 1; r.Context().Err() == nil; n++ {
			time.Sleep(time.Millisecond)
			if n%10 == 0 {
				continue
			}
			fmt.Fprintf(w, "data: {\"seq\":%d,\"at\":%d}\n\n", n, time.Now().UnixMicro())
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
		}
	})
	site.HandleFunc("/whole-events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\ndata: 2\n\n")
	})
	site.Handle("/chat.v1.Chat/", grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		counts := countsOf("/chat.v1.Chat")
		counts.accepted.Add(1)
		for {
			var message wrapperspb.StringValue
			if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			counts.received.Add(1)
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
			counts.sent.Add(1)
		}
	})))
}

// checkStreams wants the JSON in a file to count as many messages as the site does on a path, but for
// those of the first calls: streams FILE PATH FIRST-CALLS HELD.
func checkStreams(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: streams FILE PATH FIRST-CALLS HELD")
	}
	var printed struct {
		Cells []struct{ Streams *record.Streams }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &printed))
	first, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	s, site := printed.Cells[0].Streams, countsOf(args[1])
	if s == nil {
		ts.Fatalf("no stream was held")
	}
	if s.Sent != site.received.Load()-first || s.Received != site.sent.Load()-first || strconv.FormatInt(s.Held, 10) != args[3] {
		ts.Fatalf("%+v; the site received %d and sent %d", s, site.received.Load(), site.sent.Load())
	}
	if opened := site.accepted.Load() - first; s.Held+s.Reopened != opened {
		ts.Fatalf("%d held and %d reopened, but the site accepted %d", s.Held, s.Reopened, opened)
	}
}
