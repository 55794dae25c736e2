package view

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/web"
)

// Page serves the report of a run in progress. The goroutine that runs the trials writes the page
// between trials, so that writing disturbs no measurement. Writing takes at most a twentieth of the
// run's time. The checks of each trial count the CPU time of a browser on the machine under test.
type Page struct {
	read   func() (*report.Run, error)
	server *http.Server
	over   chan struct{} // closed after the last page was announced
	ended  chan struct{} // closed when the server has ended

	written time.Time     // time of the last page
	cost    time.Duration // time for writing the last page

	readers atomic.Int32 // readers that wait for a newer page

	guard   sync.Mutex // protects the fields below
	page    []byte
	pages   int           // number of pages written
	agents  []byte        // the table of a fleet's agents, in JSON; nil without a fleet
	tabled  time.Time     // time of the last table
	changed chan struct{} // closed when there is a newer page or table
	last    chan struct{} // closed when a reader has the last page; nil before the page is written
}

const (
	// pageCostDivisor limits the time for writing pages to 1/20 of the run's time.
	pageCostDivisor = 20
	// minPageInterval is the shortest time between two pages.
	minPageInterval = 500 * time.Millisecond
	// agentsInterval is the time between two tables of a fleet's agents, which need a fraction of a
	// millisecond each.
	agentsInterval = time.Second
	// lastPageTimeout is the time that readers have to fetch the last page.
	lastPageTimeout = 2 * time.Second
)

// ListenOnLoopback listens on this machine for readers of a Page. It returns nil if address is "".
func ListenOnLoopback(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--live=%s: want HOST:PORT, as in 127.0.0.1:8080: %w", address, err)
	}
	if !isLoopback(host) {
		return nil, fmt.Errorf("--live=%s: not a loopback address; to read the report from another machine, forward a port, as in ssh -L", address)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--live: %w", err)
	}
	return listener, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// requireLoopbackHost refuses other host names, so that no website reads a run through a browser.
func requireLoopbackHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]") // without a port
		}
		if !isLoopback(host) {
			http.Error(w, "this server only answers requests for 127.0.0.1, [::1] or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServePage starts to serve the run that read returns, and prints the address to says.
func ServePage(listener net.Listener, read func() (*report.Run, error), says io.Writer) *Page {
	l := &Page{read: read, page: []byte(waitingPage), changed: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", l.handlePage)
	mux.HandleFunc("GET /events", l.handleEvents)
	l.server = &http.Server{Handler: requireLoopbackHost(mux), ReadHeaderTimeout: 10 * time.Second}
	go func() { // ends with Close
		defer close(l.ended)
		_ = l.server.Serve(listener)
	}()
	fmt.Fprintf(says, "live: http://%s/\n", listener.Addr())
	return l
}

// waitingPage is served until the first trial has ended.
var waitingPage = `<!doctype html><meta charset="utf-8"><title>wirelab</title><style>` + web.Style + `</style><div id="app"><p>The first trial is running.</p></div><script>` + report.LiveScript + `</script>`

func (l *Page) handlePage(w http.ResponseWriter, _ *http.Request) {
	l.guard.Lock()
	page, last := l.page, l.last
	l.last = nil // Close waits for only one reader
	l.guard.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page) // a closed connection needs no page
	if last != nil {
		close(last)
	}
}

func (l *Page) handleEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	l.readers.Add(1)
	defer l.readers.Add(-1)
	l.guard.Lock()
	pages := l.pages
	l.guard.Unlock()
	for shown := []byte(nil); ; {
		l.guard.Lock()
		changed, agents, now := l.changed, l.agents, l.pages
		l.guard.Unlock()
		var err error
		if now != pages {
			pages = now
			_, err = io.WriteString(w, "data: changed\n\n")
		}
		if err == nil && !bytes.Equal(agents, shown) {
			shown = agents
			_, err = fmt.Fprintf(w, "event: agents\ndata: %s\n\n", agents)
		}
		if err := errors.Join(err, control.Flush()); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-l.over:
			return
		case <-changed:
		}
	}
}

// Observe writes the page after a trial, unless the last page is too recent. During a trial it sends
// the table of a fleet's agents to the readers.
func (l *Page) Observe(e live.Event) {
	switch e := e.(type) {
	case live.Ended:
		if l.isDue(time.Now()) {
			l.write(report.WriteLiveHTML, nil)
		}
	case live.Progress:
		if len(e.Agents) > 0 && l.readers.Load() > 0 {
			l.setAgents(e.Agents, time.Now())
		}
	}
}

func (l *Page) setAgents(agents []live.Agent, now time.Time) {
	l.guard.Lock()
	defer l.guard.Unlock()
	if now.Sub(l.tabled) < agentsInterval {
		return
	}
	if table, err := json.Marshal(newAgentTable(agents, maxAgentRows)); err == nil { // never fails
		l.agents, l.tabled = table, now
		l.announce()
	}
}

// announce tells readers that the page or the table has changed. The caller holds the lock.
func (l *Page) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Page) isDue(now time.Time) bool {
	return now.Sub(l.written) >= max(minPageInterval, pageCostDivisor*l.cost)
}

// write writes the page if the run can be read. handlePage closes last when a reader fetches the
// page.
func (l *Page) write(html func(io.Writer, *report.Run) error, last chan struct{}) {
	began := time.Now()
	seen, err := l.read()
	var page bytes.Buffer
	if err == nil {
		err = html(&page, seen)
	}
	l.written = time.Now()
	l.cost = l.written.Sub(began)
	if err != nil {
		return
	}
	l.guard.Lock()
	defer l.guard.Unlock()
	l.page, l.last = page.Bytes(), last
	l.pages++
	l.announce()
}

// Close writes the final page, and ends the server when a reader has fetched it.
func (l *Page) Close() error {
	last := make(chan struct{})
	l.write(report.WriteHTML, last)
	if l.readers.Load() > 0 {
		select {
		case <-last:
		case <-time.After(lastPageTimeout):
		}
	}
	close(l.over)
	ctx, cancel := context.WithTimeout(context.Background(), lastPageTimeout)
	defer cancel()
	_ = l.server.Shutdown(ctx) // waits for answers in progress; the rest is closed below
	err := l.server.Close()
	<-l.ended
	return err
}
