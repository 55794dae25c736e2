package body

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
)

// Requests are made from a client's number in its group, so that no two workers make the same.
func TestRequestsOfAGroupDoNotRepeat(t *testing.T) {
	asked := make(chan string, 100) // more than are made
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	made := []service.Request{{Method: http.MethodGet, Path: "/{{.Client}}/{{.N}}"}}
	definition := service.Definition{
		Wire: service.HTTP1, Network: "tcp", Address: address, Authority: address,
		Requests: made, Feed: &service.Feed{Requests: made},
	}
	text, err := definition.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for first, want := range map[int][]string{0: {"/0/1", "/1/2", "/0/6", "/1/7"}, 2: {"/2/3", "/3/4", "/2/8", "/3/9"}} {
		conns, err := connectService(t.Context(), &task{Spec: worker.Spec{
			Workload: worker.Workload{Definition: text},
			Client:   &worker.ClientSpec{Clients: 2, Connection: "per-worker", Group: &worker.Group{First: first, Of: 5}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conns.close)
		var got []string
		for call := range 4 {
			if err := conns.callers[call%2].Call(t.Context()); err != nil {
				t.Fatal(fmt.Errorf("call %d: %w", call, err))
			}
			got = append(got, <-asked)
		}
		if !slices.Equal(got, want) {
			t.Errorf("clients from %d on asked for %q, want %q", first, got, want)
		}
	}
}
