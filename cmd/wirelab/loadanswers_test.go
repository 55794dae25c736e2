package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"wirelab.dev/rpc/call/wire"
)

const rightBody = `{"id":7,"name":"elm"}`

// serveStagedAnswers adds paths to a site whose answers are wrong in a known way. One answer in 50 is
// wrong where nothing else is said; the status is 200.
func serveStagedAnswers(site *http.ServeMux) {
	answer := func(path string, write func(w http.ResponseWriter, r *http.Request, wrong bool)) {
		var calls atomic.Int64
		site.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { write(w, r, calls.Add(1)%50 == 0) })
	}
	answer("/right", func(w http.ResponseWriter, _ *http.Request, _ bool) { fmt.Fprint(w, rightBody) })
	answer("/sometimes-empty", func(w http.ResponseWriter, _ *http.Request, wrong bool) {
		if !wrong {
			fmt.Fprint(w, rightBody)
		}
	})
	answer("/sometimes-cut", func(w http.ResponseWriter, _ *http.Request, wrong bool) {
		if wrong {
			fmt.Fprint(w, rightBody[:10])
			return
		}
		fmt.Fprint(w, rightBody)
	})
	// The header has the right length, so the answer is not complete.
	answer("/sometimes-broken-off", func(w http.ResponseWriter, _ *http.Request, wrong bool) {
		w.Header().Set("Content-Length", "21")
		if wrong {
			fmt.Fprint(w, rightBody[:10])
			return
		}
		fmt.Fprint(w, rightBody)
	})
	for _, path := range []string{"/sometimes-reset", "/sometimes-reset-again"} {
		answer(path, func(w http.ResponseWriter, _ *http.Request, wrong bool) {
			if !wrong {
				fmt.Fprint(w, rightBody)
				return
			}
			raw, _, _ := w.(http.Hijacker).Hijack()
			_ = raw.(*net.TCPConn).SetLinger(0)
			_ = raw.Close()
		})
	}
	answer("/limit", func(w http.ResponseWriter, _ *http.Request, _ bool) { w.WriteHeader(http.StatusTooManyRequests) })
	answer("/too-long", func(w http.ResponseWriter, _ *http.Request, _ bool) {
		raw, _, _ := w.(http.Hijacker).Hijack()
		_, _ = fmt.Fprintf(raw, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more")
		_ = raw.Close()
	})
	answer("/many-sizes", func(w http.ResponseWriter, _ *http.Request, _ bool) {
		fmt.Fprint(w, strings.Repeat("-", 1+rand.IntN(4000)))
	})
	// A gRPC method whose message is sometimes empty.
	answer("/shop.v1.Shop/Get", func(w http.ResponseWriter, _ *http.Request, wrong bool) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		message := append([]byte{10, 4}, "fern"...) // field 1, four bytes
		if wrong {
			message = nil
		}
		_, _ = w.Write(wire.AppendMessage(nil, message))
		w.Header().Set("Grpc-Status", "0")
	})
	// One connection in four is slow, or fails.
	site.HandleFunc("/slow-connection", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond)
		if isFourthConnection(r) {
			time.Sleep(50 * time.Millisecond)
		}
		fmt.Fprint(w, rightBody)
	})
	site.HandleFunc("/failing-connection", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond)
		if isFourthConnection(r) && r.URL.RawQuery != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

type connectionKey struct{}

var connections atomic.Int64

func numberConnections(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connections.Add(1))
}

func isFourthConnection(r *http.Request) bool {
	return r.Context().Value(connectionKey{}).(int64)%4 == 0
}
