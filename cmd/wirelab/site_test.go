package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // its users may compress messages
	"google.golang.org/grpc/reflection"

	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/echo"
)

// sites are the servers that scripts load, or find that they cannot.
var sites = map[string]func(*testscript.TestScript) string{
	"http":         func(ts *testscript.TestScript) string { return serveSite(ts, secure.NoFlaw, false) },
	"https":        func(ts *testscript.TestScript) string { return serveSite(ts, secure.NoFlaw, true) },
	"expired":      func(ts *testscript.TestScript) string { return serveSite(ts, secure.Expired, true) },
	"grpc":         func(ts *testscript.TestScript) string { return serveEcho(ts, "tcp", true) },
	"otherName":    func(ts *testscript.TestScript) string { return serveSite(ts, secure.WrongName, true) },
	"unreflective": func(ts *testscript.TestScript) string { return serveEcho(ts, "tcp", false) },
	"socket":       func(ts *testscript.TestScript) string { return serveEcho(ts, "unix", true) },
	"hangs":        func(ts *testscript.TestScript) string { return serveBytes(ts, "", holdOpen) },
	"breaks": func(ts *testscript.TestScript) string {
		return serveBytes(ts, "HTTP/1.1 200 OK\r\nContent-Len", hangUp)
	},
	"endless": func(ts *testscript.TestScript) string { return serveBytes(ts, "HTTP/1.1 200 OK\r\n\r\n", withoutEnd) },
	"strange": func(ts *testscript.TestScript) string { return serveBytes(ts, "SSH-2.0-OpenSSH_10\r\n", hangUp) },
	"nobody":  nobody,
}

// site starts a server for the rest of a script, and puts its address into a variable:
// site KIND VARIABLE.
func site(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || sites[args[0]] == nil {
		ts.Fatalf("usage: site KIND VARIABLE")
	}
	ts.Setenv(args[1], sites[args[0]](ts))
}

// serveSite serves pages: /echo answers with the request's body, /never never answers,
// /broken ends what carries the call, /stall stands still for 200 ms of each second, /limit refuses all calls.
// The script command asked counts the calls of /echo.
func serveSite(ts *testscript.TestScript, flaw secure.Flaw, secured bool) string {
	began := time.Now()
	mux := http.NewServeMux()
	var calls atomic.Int64
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body)
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("photo")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = file.Close()
		w.Header().Set("Uploaded", header.Filename+" "+header.Header.Get("Content-Type")+" "+r.FormValue("name"))
	})
	mux.HandleFunc("/limit", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	mux.HandleFunc("/stall", func(http.ResponseWriter, *http.Request) {
		if within := time.Since(began) % time.Second; within < stallLength {
			time.Sleep(stallLength - within)
		}
	})
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.EnableHTTP2 = true
	if secured {
		identity, err := secure.Issue(secure.Choice{}, flaw)
		ts.Check(err)
		server.TLS = identity.ServerConfig("h2", "http/1.1")
		server.StartTLS()
		ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "root.pem"), identity.RootPEM(), 0o600))
	} else {
		server.Start()
	}
	ts.Defer(server.Close)
	at := server.Listener.Addr().String()
	echoed.Store(at, &calls)
	ts.Defer(func() { echoed.Delete(at) })
	return at
}

// echoed counts the calls of /echo that each site had, by its address.
var echoed sync.Map

// asked wants a site to have had N calls of /echo since the last asked: asked ADDRESS N.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: asked ADDRESS N")
	}
	calls, known := echoed.Load(args[0])
	if !known {
		ts.Fatalf("there is no site at %s", args[0])
	}
	if had := calls.(*atomic.Int64).Swap(0); args[1] != strconv.FormatInt(had, 10) {
		ts.Fatalf("%s had %d calls, want %s", args[0], had, args[1])
	}
}

// stallLength is for how long of each second /stall stands still.
const stallLength = 200 * time.Millisecond

// serveEcho serves the workload echo by grpc-go.
func serveEcho(ts *testscript.TestScript, network string, reflects bool) string {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(ts.Getenv("WORK"), "socket")
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), network, address)
	ts.Check(err)
	server := grpc.NewServer()
	echo.Workload{}.Register(server, workload.Parameters{})
	if reflects {
		reflection.Register(server)
	}
	go func() { _ = server.Serve(listener) }() // ends with Stop
	ts.Defer(server.Stop)
	return strings.TrimPrefix(listener.Addr().String(), "@")
}

// What a server of bytes does after them.
const (
	hangUp = iota
	holdOpen
	withoutEnd
)

// serveBytes serves a beginning of an answer, and then ends, waits, or goes on without end.
func serveBytes(ts *testscript.TestScript, text string, then int) string {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	ended := make(chan struct{})
	ts.Defer(func() { close(ended); _ = listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the script, or with the client
				defer func() { _ = conn.Close() }()
				if text != "" {
					_, _ = conn.Read(make([]byte, 1<<10))
				}
				_, err := io.WriteString(conn, text)
				for then == withoutEnd && err == nil {
					_, err = conn.Write(make([]byte, 64<<10))
				}
				if then == holdOpen {
					<-ended
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// nobody is an address at which nothing listens.
func nobody(ts *testscript.TestScript) string {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
