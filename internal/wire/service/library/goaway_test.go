package library

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/service"
)

// TestGoAwayIsCounted has a server that ends its connection after every 20th answer, as some proxies
// do. The calls that it had not begun fail, unless they may be sent again. Each call that succeeds was
// handled exactly once.
func TestGoAwayIsCounted(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 100
	for _, retry := range []int{0, 100} {
		var answers atomic.Int64
		server, err := httpwire.NewServer(httpwire.ServerPlan{Version: httpwire.HTTP2, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if answers.Add(1)%20 == 0 {
				w.Header().Set("Connection", "close") // net/http then sends GOAWAY
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		address, err := server.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve() }() // ends with Close
		t.Cleanup(func() { _ = server.Close() })
		d := &service.Definition{
			Wire: service.HTTP2, Network: "tcp", Address: address.String(), Authority: "shop.example", Retry: retry,
			Requests: []service.Request{{Method: "GET", Path: "/"}},
		}
		client := open(t, service.Plan{Definition: d, Connections: 2, Callers: callers, Keep: true})
		var calls sync.WaitGroup
		var refused atomic.Int64
		for number := range callers {
			calls.Go(func() {
				caller := d.NewCaller(client, d.FixedSource(service.Share{Number: number, Of: 1, Seed: 1}))
				for range each {
					switch err := caller.Call(t.Context()); {
					case failure.Of(err) == failure.StreamRefused && retry == 0:
						refused.Add(1)
					case err != nil:
						t.Error(err)
					}
				}
			})
		}
		calls.Wait()
		if handled := answers.Load(); handled+refused.Load() != callers*each {
			t.Errorf("retry %d: of %d calls, the server handled %d and refused %d", retry, callers*each, handled, refused.Load())
		}
	}
}
