package library

import (
	"testing"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// BenchmarkFreshTLS is the cost of both ends of a request with a TLS connection of its own.
func BenchmarkFreshTLS(b *testing.B) {
	d := serveHTTP(b, service.HTTP1, true)
	client := open(b, service.Plan{Definition: d, Connections: 1, Callers: 1, Lifecycle: conn.Fresh})
	var answer service.Answer
	for b.Loop() {
		if err := client.Call(b.Context(), &service.Request{Method: "GET", Path: "/echo"}, &answer); err != nil {
			b.Fatal(err)
		}
	}
}
