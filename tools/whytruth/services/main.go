// Service is a small web service with planted faults:
//
//	service -address 127.0.0.1:18080 -job query -fault
//
// A job is what a request does; -fault plants the fault of the job.
package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:18080", "the `address` to listen at")
	job := flag.String("job", "plain", "what a request `does`")
	backend := flag.String("backend", "", "the `address` of the back end")
	fault := flag.Bool("fault", false, "plant the fault of the job")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "service:", serve(*address, *job, *backend, *fault))
	os.Exit(1)
}

func serve(address, job, backend string, fault bool) error {
	begin, has := jobs("http://" + backend)[job]
	if !has {
		return fmt.Errorf("no job is named %q", job)
	}
	server := http.Server{Addr: address, Handler: begin(fault), ReadHeaderTimeout: time.Minute}
	if fault {
		server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			return configure(ctx, conn, job)
		}
	}
	return server.ListenAndServe()
}

// jobs returns the function that begins each job, by its name.
func jobs(backend string) map[string]func(fault bool) http.HandlerFunc {
	all := map[string]func(bool) http.HandlerFunc{
		"plain": func(bool) http.HandlerFunc { return hash(64 << 10) }, "render": func(bool) http.HandlerFunc { return hash(1 << 20) },
		"query": query, "heap": heap, "validate": validate, "compress": compress,
		"parts": parts, "report": report, "thumbnail": thumbnail, "download": download,
		"items":   func(fault bool) http.HandlerFunc { return items(backend, fault) },
		"connect": func(fault bool) http.HandlerFunc { return connect(backend, fault) },
		"backend": func(bool) http.HandlerFunc { return origin },
	}
	maps.Copy(all, more(backend))
	maps.Copy(all, field())
	return all
}

// configure plants the faults that are settings of a socket.
func configure(ctx context.Context, conn net.Conn, job string) context.Context {
	tcp, is := conn.(*net.TCPConn)
	switch {
	case !is:
	case job == "parts":
		_ = tcp.SetNoDelay(false)
	case job == "download":
		_ = tcp.SetWriteBuffer(64 << 10)
	}
	return ctx
}

// hash computes: with 1 MiB for a millisecond or less.
func hash(size int) http.HandlerFunc {
	page := make([]byte, size)
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%x\n", sha256.Sum256(page))
	}
}

// query waits for a data source, which takes 64 requests at a time, or 2.
func query(fault bool) http.HandlerFunc {
	size := 64
	if fault {
		size = 2
	}
	pool := make(chan struct{}, size)
	return func(w http.ResponseWriter, _ *http.Request) {
		pool <- struct{}{}
		defer func() { <-pool }()
		time.Sleep(2 * time.Millisecond)
		fmt.Fprintln(w, "found")
	}
}

type item struct {
	ID    int
	Name  string
	Price float64
}

// list answers with n items.
func list(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	found := make([]item, n)
	for i := range found {
		found[i] = item{ID: i, Name: "an item", Price: 9.99}
	}
	_ = json.NewEncoder(w).Encode(found)
}

// fetch asks for items, and reads the whole answer, so that the connection can be kept.
func fetch(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &[]item{})
}

// items asks the back end once for ten items, or ten times for one.
func items(backend string, fault bool) http.HandlerFunc {
	client := keeping()
	return func(w http.ResponseWriter, _ *http.Request) {
		calls, each := 1, 10
		if fault {
			calls, each = 10, 1
		}
		for range calls {
			if err := fetch(client, fmt.Sprintf("%s/?n=%d", backend, each)); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
		fmt.Fprintln(w, "ten items")
	}
}

// connect asks the back end for one item, with a kept or a new connection.
func connect(backend string, fault bool) http.HandlerFunc {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableKeepAlives: fault}}
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := fetch(client, backend+"/?n=1"); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, "one item")
	}
}

// heap has a large live heap, and allocates some 100 KiB per request.
func heap(fault bool) http.HandlerFunc {
	if fault {
		debug.SetGCPercent(5)
	}
	live := make([]*item, 1<<20)
	for i := range live {
		live[i] = &item{ID: i}
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		found := make([]*item, 2000)
		for i := range found {
			found[i] = &item{ID: live[i].ID + 1, Name: "an item"}
		}
		fmt.Fprintln(w, len(found))
	}
}

var patterns = []string{
	`^[a-z0-9._%+-]{1,64}@([a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}$`,
	`^\+?[0-9]{1,3}[ -]?([0-9]{2,4}[ -]?){2,5}$`,
	`^(?i:mon|tue|wed|thu|fri|sat|sun), [0-9]{1,2} [a-z]{3} [0-9]{4}$`,
}

// validate matches texts with patterns that are compiled once, or in each request.
func validate(fault bool) http.HandlerFunc {
	compile := func() (all []*regexp.Regexp) {
		for _, pattern := range patterns {
			all = append(all, regexp.MustCompile(pattern))
		}
		return all
	}
	once := compile()
	return func(w http.ResponseWriter, _ *http.Request) {
		all := once
		if fault {
			all = compile()
		}
		for i, text := range []string{"ann@shop.example.com", "+49 30 1234 5678", "Fri, 27 Nov 2026"} {
			fmt.Fprintln(w, all[i].MatchString(text))
		}
	}
}

// compress sends some 60 KiB of text by gzip at its fastest or slowest level.
func compress(fault bool) http.HandlerFunc {
	level := gzip.BestSpeed
	if fault {
		level = gzip.BestCompression
	}
	var text strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&text, "item %d costs %x and weighs %d g\n", i, sha256.Sum224([]byte{byte(i)}), i*i)
	}
	page := []byte(text.String())[:60<<10]
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		out, _ := gzip.NewWriterLevel(w, level)
		_, _ = out.Write(page)
		_ = out.Close()
	}
}

// parts writes the answer in two parts; the fault is in the socket.
func parts(bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "200")
		_, _ = io.WriteString(w, strings.Repeat("a", 100))
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, strings.Repeat("b", 100))
	}
}

// report fills a buffer of 16 MiB, one byte per page, which is kept or new.
func report(fault bool) http.HandlerFunc {
	const size = 16 << 20
	kept := make(chan []byte, 64)
	return func(w http.ResponseWriter, _ *http.Request) {
		var buffer []byte
		select {
		case buffer = <-kept:
		default:
			buffer = make([]byte, size)
		}
		for i := 0; i < size; i += 4096 {
			buffer[i]++
		}
		fmt.Fprintln(w, len(buffer))
		if !fault {
			kept <- buffer
		}
	}
}

// thumbnail computes itself, and with the fault also starts a program.
func thumbnail(fault bool) http.HandlerFunc {
	begin := hash(64 << 10)
	return func(w http.ResponseWriter, r *http.Request) {
		if fault {
			if err := exec.CommandContext(r.Context(), "true").Run(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		begin(w, r)
	}
}

// download sends 1 MiB; the fault is in the socket.
func download(bool) http.HandlerFunc {
	page := make([]byte, 1<<20)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		_, _ = w.Write(page)
	}
}
