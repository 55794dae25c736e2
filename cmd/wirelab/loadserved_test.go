package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/wire/service/dnstest"
)

// TestServedScripts load a server whose answers lead elsewhere, and which knows its traces.
func TestServedScripts(t *testing.T) {
	site := servedSite()
	serveStagedAnswers(site)
	serveStreams(site)
	server := httptest.NewUnstartedServer(site)
	server.Config.ConnContext = numberConnections
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	second, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", port))
	if err != nil {
		t.Skipf("this machine has no second loopback address: %v", err)
	}
	go func() { _ = server.Config.Serve(second) }() // ends with server.Close
	names := dnstest.Serve(t, "127.0.0.1", "127.0.0.2")
	params := scripts(t, "served")
	params.Cmds["loads"] = loads
	params.Cmds["traces"] = checkTraces
	params.Cmds["counted"] = checkCounted
	params.Cmds["streams"] = checkStreams
	params.Cmds["names"] = func(ts *testscript.TestScript, neg bool, args []string) { setNames(ts, names, args) }
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("SITE", server.URL)
		env.Setenv("SITE_ADDRESS", server.Listener.Addr().String())
		env.Setenv("NAMED_SITE", "http://"+net.JoinHostPort(dnstest.Name, port))
		env.Setenv("DNS", names.Address)
		return setup(env)
	}
	testscript.Run(t, params)
}

// servedSite leads /old to /new?x=1, /away to another port, /secure to TLS, /round to itself
// and /post, by 303, to /new; /again keeps the method. What is there says how it was asked.
func servedSite() *http.ServeMux {
	site := http.NewServeMux()
	for path, to := range map[string]struct {
		url    string
		status int
	}{
		"/old":    {"/new?x=1", http.StatusFound},
		"/away":   {"http://127.0.0.1:1/new", http.StatusMovedPermanently},
		"/round":  {"/round", http.StatusFound},
		"/post":   {"new", http.StatusSeeOther},
		"/again":  {"/new", http.StatusTemporaryRedirect},
		"/broken": {"http://[", http.StatusFound},
	} {
		site.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to.url)
			w.WriteHeader(to.status)
		})
	}
	site.HandleFunc("/secure", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://"+r.Host+"/new")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	site.HandleFunc("/traced", func(_ http.ResponseWriter, r *http.Request) {
		if field := r.Header.Get("traceparent"); field != "" {
			received.Store(field, true)
		}
	})
	site.HandleFunc("/counted/", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		countedRequests.Lock()
		defer countedRequests.Unlock()
		countedRequests.by[r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Key")+strings.TrimSpace(string(body))]++
	})
	for path, takes := range map[string]time.Duration{"/quick": 2 * time.Millisecond, "/slow": 8 * time.Millisecond} {
		site.HandleFunc(path, func(http.ResponseWriter, *http.Request) { time.Sleep(takes) })
	}
	shelf, queue := &stagedShelf{}, make(stagedQueue)
	go queue.work() // ends with the test's process
	site.HandleFunc("/locked", func(http.ResponseWriter, *http.Request) { shelf.take() })
	site.HandleFunc("/queued", func(http.ResponseWriter, *http.Request) { queue.ask() })
	site.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("-", len(r.Method))) // so that the length tells
	})
	return site
}

// A stagedShelf lets one request at a time hold its lock.
type stagedShelf struct{ lock sync.Mutex }

func (s *stagedShelf) take() {
	s.lock.Lock()
	defer s.lock.Unlock()
	time.Sleep(time.Millisecond)
}

// A stagedQueue answers one request at a time.
type stagedQueue chan chan struct{}

func (q stagedQueue) work() {
	for answer := range q {
		time.Sleep(time.Millisecond)
		close(answer)
	}
}

func (q stagedQueue) ask() {
	answer := make(chan struct{})
	q <- answer
	<-answer
}

// loads runs wirelab load, and takes it for done where the machine was too noisy for a valid
// measurement: scripts look at what is printed, not at speeds.
func loads(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: loads FLAG… TARGET")
	}
	err := ts.Exec("wirelab", append([]string{"load"}, args...)...)
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == exitInvalid {
		ts.Logf("the measurement is invalid on this machine now; what is checked here does not depend on it")
		return
	}
	ts.Check(err)
}

// setNames changes the answers of the name server after it has been asked a number of times: names N ADDRESS….
// Without an address, the name server fails from then on.
func setNames(ts *testscript.TestScript, names *dnstest.Server, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: names N ADDRESS…")
	}
	times, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	for since := names.Asked(); names.Asked() < since+times; {
		time.Sleep(time.Millisecond)
	}
	if len(args) == 1 {
		names.Fail()
		return
	}
	names.Set(args[1:]...)
}

// countedRequests are the requests below /counted/, by their contents.
var countedRequests = struct {
	sync.Mutex
	by map[string]int
}{by: map[string]int{}}

// checkCounted wants the server to have counted N requests of these contents: counted N METHOD PATH [CONTENT].
func checkCounted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: counted N METHOD PATH [CONTENT]")
	}
	countedRequests.Lock()
	defer countedRequests.Unlock()
	key := args[1] + " " + args[2] + " " + strings.Join(args[3:], " ")
	if n := countedRequests.by[key]; strconv.Itoa(n) != args[0] {
		ts.Fatalf("the server counted %d requests %q, want %s; all: %v", n, key, args[0], countedRequests.by)
	}
}

// received are the traceparents that came with requests.
var received sync.Map

// checkTraces wants the JSON in a file to have N traced requests, the slowest first, and the server
// to have received them: traces FILE N.
func checkTraces(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: traces FILE N")
	}
	var printed struct {
		Cells []struct {
			Traced int64
			Traces []matrix.Trace
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &printed))
	c := printed.Cells[0]
	if args[1] != strconv.FormatInt(c.Traced, 10) || len(c.Traces) != int(min(10, c.Traced)) {
		ts.Fatalf("%d requests are traced, and %d named, want %s", c.Traced, len(c.Traces), args[1])
	}
	sent := map[string]bool{}
	received.Range(func(field, _ any) bool {
		parts := strings.Split(field.(string), "-")
		sent[parts[1]] = len(parts) == 4 && parts[0] == "00" && len(parts[2]) == 16 && parts[3] == "01"
		return true
	})
	for i, one := range c.Traces {
		if !sent[one.ID] {
			ts.Fatalf("the server was not sent %s, as it should be", one.ID)
		}
		if i > 0 && one.LatencyUS > c.Traces[i-1].LatencyUS {
			ts.Fatalf("trace %d is slower than the one before it", i)
		}
	}
}
