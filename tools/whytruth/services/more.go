package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// more returns the jobs of blind2.yaml.
func more(backend string) map[string]func(fault bool) http.HandlerFunc {
	return map[string]func(bool) http.HandlerFunc{
		"prices": prices, "audit": audit, "gather": gather, "search": search, "stock": stock, "upload": upload,
		"stream": stream, "diagnose": diagnose, "refresh": refresh, "handoff": handoff, "idle": idle,
		"retry": func(fault bool) http.HandlerFunc { return retry(backend, fault) },
		"relay": func(fault bool) http.HandlerFunc { return relay(backend, fault) },
	}
}

// prices reads under a lock that a writer holds for 3 ms of every 5 ms, or for a moment.
func prices(fault bool) http.HandlerFunc {
	var lock sync.RWMutex
	price := 0
	go func() {
		for {
			lock.Lock()
			price++
			if fault {
				time.Sleep(3 * time.Millisecond)
			}
			lock.Unlock()
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return func(w http.ResponseWriter, _ *http.Request) {
		lock.RLock()
		now := price
		lock.RUnlock()
		fmt.Fprintln(w, now)
	}
}

// audit writes 4 KiB of log to a pipe, one request at a time. The reader takes all at once, or 4 KiB per millisecond.
func audit(fault bool) http.HandlerFunc {
	from, to, err := os.Pipe()
	if err != nil {
		return failing(err)
	}
	go func() {
		lines := make([]byte, 4<<10)
		for {
			_, _ = io.ReadFull(from, lines)
			if fault {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	var lock sync.Mutex
	lines := []byte(strings.Repeat("a request came in, and was logged here, in one line of 64 bytes\n", 64))
	return func(w http.ResponseWriter, _ *http.Request) {
		lock.Lock()
		_, err := to.Write(lines)
		lock.Unlock()
		fmt.Fprintln(w, "logged", err)
	}
}

// failing answers with an error.
func failing(err error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// gather waits for ten things of a millisecond, at once or in turn.
func gather(fault bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { time.Sleep(time.Millisecond) })
			if fault {
				all.Wait()
			}
		}
		all.Wait()
		fmt.Fprintln(w, "ten things")
	}
}

// search finds an item by name, in a map or by comparing all items.
func search(fault bool) http.HandlerFunc {
	const many = 300_000
	catalogue := make([]*item, many)
	index := make(map[string]*item, many)
	for i := range catalogue {
		catalogue[i] = &item{ID: i, Name: fmt.Sprintf("item of the catalogue number %06d", i)}
		index[catalogue[i].Name] = catalogue[i]
	}
	wanted := catalogue[many-1].Name
	return func(w http.ResponseWriter, _ *http.Request) {
		found := index[wanted]
		if fault {
			found = searchAll(catalogue, wanted)
		}
		fmt.Fprintln(w, found.ID)
	}
}

func searchAll(catalogue []*item, wanted string) *item {
	for _, one := range catalogue {
		if one.Name == wanted {
			return one
		}
	}
	return nil
}

// stock reads one of 10,000 numbers, from the map of all or from a copy of it.
func stock(fault bool) http.HandlerFunc {
	pieces := map[int]int{}
	for i := range 10_000 {
		pieces[i] = i
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		here := pieces
		if fault {
			here = maps.Clone(pieces)
		}
		fmt.Fprintln(w, here[4711])
	}
}

// upload hashes 64 KiB, which it may write to a file first, and read from there.
func upload(fault bool) http.HandlerFunc {
	page := make([]byte, 64<<10)
	return func(w http.ResponseWriter, _ *http.Request) {
		text := page
		if fault {
			var err error
			if text, err = throughFile(page); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		fmt.Fprintf(w, "%x\n", sha256.Sum256(text))
	}
}

func throughFile(page []byte) ([]byte, error) {
	file, err := os.CreateTemp(".", "upload-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(page)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file.Name())
}

// stream answers with 300 rows, and flushes each, or all at the end.
func stream(fault bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for range 300 {
			_, _ = io.WriteString(w, "a row of the answer\n")
			if fault {
				w.(http.Flusher).Flush()
			}
		}
	}
}

// diagnose prints the stack of its own goroutine; or it stops the process, and prints the stacks of 300.
func diagnose(fault bool) http.HandlerFunc {
	if fault {
		wait(300)
	}
	buffers := sync.Pool{New: func() any { return new([1 << 20]byte) }} // a new one per request would take longer than the stacks
	return func(w http.ResponseWriter, _ *http.Request) {
		buffer := buffers.Get().(*[1 << 20]byte)
		defer buffers.Put(buffer)
		fmt.Fprintln(w, runtime.Stack(buffer[:], fault))
	}
}

// idle has a thousand goroutines that wait for ever, or none.
func idle(fault bool) http.HandlerFunc {
	if fault {
		wait(1000)
	}
	return hash(64 << 10)
}

// wait starts goroutines that wait for ever.
func wait(goroutines int) {
	for range goroutines {
		go func() { <-make(chan struct{}) }()
	}
}

// refresh has a goroutine that computes all the time, or none.
func refresh(fault bool) http.HandlerFunc {
	if fault {
		go refreshAll()
	}
	return hash(64 << 10)
}

func refreshAll() {
	page := make([]byte, 16<<10)
	for {
		sum := sha256.Sum256(page)
		copy(page, sum[:])
	}
}

// handoff hands 200 values to and fro between two goroutines. One goroutine may be locked to a thread.
func handoff(fault bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		there, back := make(chan int), make(chan int)
		go func() {
			if fault {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			for value := range there {
				back <- value + 1
			}
		}()
		value := 0
		for range 200 {
			there <- value
			value = <-back
		}
		close(there)
		fmt.Fprintln(w, value)
	}
}

// origin is the back end: it may refuse a request, or take 3 ms for it.
func origin(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/busy":
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	case "/slow":
		time.Sleep(3 * time.Millisecond)
	}
	list(w, r)
}

// retry asks the back end for one item. With the fault, the first three tries of each request are refused.
func retry(backend string, fault bool) http.HandlerFunc {
	client := keeping()
	return func(w http.ResponseWriter, _ *http.Request) {
		paths := []string{"/"}
		if fault {
			paths = []string{"/busy", "/busy", "/busy", "/"}
		}
		var err error
		for _, path := range paths {
			if err = fetch(client, backend+path+"?n=1"); err == nil {
				fmt.Fprintln(w, "one item")
				return
			}
			time.Sleep(time.Millisecond)
		}
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// relay asks the back end for one item, which takes it 3 ms with the fault.
func relay(backend string, fault bool) http.HandlerFunc {
	path := "/"
	if fault {
		path = "/slow"
	}
	client := keeping()
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := fetch(client, backend+path+"?n=1"); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, "one item")
	}
}

// keeping returns a client that keeps its connections.
func keeping() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
}
