package spread_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"wirelab.dev/internal/wire/service"
)

// echo is a handler of WebSockets that sends each message back.
func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// TestStreamsStayAtTheirAddress holds streams at three addresses, beside one that accepts no connection.
// Two callers share each stream.
func TestStreamsStayAtTheirAddress(t *testing.T) {
	t.Parallel()
	const streams, inFlight, each = 8, 2, 10
	for _, wire := range []service.Wire{service.WebSocket, service.GRPC} {
		f := newFarm(t, wire, false)
		dead := f.listen(t, "127.0.0.4")
		_ = dead.Close()
		f.Definition.Addresses.All = []string{dead.Addr().String()}
		f.Requests[0].Body = []byte("hello")
		f.Requests[0].Stream = service.Stream{Client: true, Server: true}
		f.Timeout = time.Minute
		f.Holding = &service.Holding{InFlight: inFlight, Exchange: service.Answers}
		for _, host := range hosts {
			f.serve(t, host)
		}
		client := open(t, service.Plan{Definition: f.Definition, Connections: streams, Callers: streams * inFlight}).(service.Holder)
		var running sync.WaitGroup
		met := make([]map[string]int, streams*inFlight)
		for stream := range streams {
			var answers []*service.Answer
			for n := stream * inFlight; n < (stream+1)*inFlight; n++ {
				var request *service.Request
				if n%inFlight == 0 {
					request = &f.Requests[0]
				}
				answers = append(answers, &service.Answer{})
				if err := client.Hold(t.Context(), n, request, answers[n%inFlight]); err != nil {
					t.Fatal(err)
				}
			}
			for i, answer := range answers {
				running.Go(func() {
					met[stream*inFlight+i] = map[string]int{}
					for range each {
						if err := client.Call(t.Context(), &f.Requests[0], answer); err != nil {
							t.Error(err)
						}
						met[stream*inFlight+i][answer.Address]++
					}
				})
			}
		}
		running.Wait()
		for n, addresses := range met {
			if first := met[n/inFlight*inFlight]; len(addresses) != 1 || len(first) != 1 || firstKey(addresses) != firstKey(first) {
				t.Errorf("%s: caller %d met %v, and the first one of its stream %v", wire, n, addresses, first)
			}
		}
		total := int64(0)
		for address, s := range f.servers {
			got := s.handled.Load()
			if total += got; got < streams/4 {
				t.Errorf("%s: %s has %d streams: want at least %d", wire, address, got, streams/4)
			}
		}
		if s := client.Streams(); total != streams || s.Held != streams || s.Sent != streams*inFlight*each {
			t.Errorf("%s: the servers have %d streams, and the client counts %d with %d messages: want %d with %d", wire, total, s.Held, s.Sent, streams, streams*inFlight*each)
		}
		if a := client.(service.Counted).Addresses().All[0]; a.Unreached == 0 {
			t.Errorf("%s: no failed attempt counted at %s", wire, a.Address)
		}
	}
}

func firstKey(m map[string]int) string {
	for key := range m {
		return key
	}
	return ""
}
