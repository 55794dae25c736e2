package library

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/service"
)

// TestGoAwayLosesNoCall has a server that ends its connection after every 20th answer, as
// some proxies do. The calls that it had not begun must go on over another connection.
func TestGoAwayLosesNoCall(t *testing.T) {
	t.Parallel()
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
	d := &service.Definition{Wire: service.HTTP2, Network: "tcp", Address: address.String(), Authority: "shop.example"}
	client := open(t, service.Plan{Definition: d, Connections: 2, Callers: 8, Keep: true})
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 100 {
				if err := client.Call(t.Context(), &service.Request{Method: "GET", Path: "/"}, &service.Answer{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
}
