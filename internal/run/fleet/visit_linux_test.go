package fleet_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/reach"
)

// A remoteService is a service that this process cannot reach: it closes connections that this process
// opened. The controller and the agents are this process, and workers are others.
type remoteService struct {
	address string
	guard   sync.Mutex
	asked   []string // paths of all requests
	closed  int      // connections from this process
}

// Accept returns the next connection from another process.
func (s *serviceListener) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil || !isOwnSocket(conn.RemoteAddr(), conn.LocalAddr()) {
			return conn, err
		}
		s.of.guard.Lock()
		s.of.closed++
		s.of.guard.Unlock()
		_ = conn.Close()
	}
}

type serviceListener struct {
	net.Listener
	of *remoteService
}

// isOwnSocket reports whether this process has the socket between two addresses of 127.0.0.1.
func isOwnSocket(own, peer net.Addr) bool {
	pair := fmt.Sprintf(" 0100007F:%04X 0100007F:%04X ", own.(*net.TCPAddr).Port, peer.(*net.TCPAddr).Port)
	table := must(os.ReadFile("/proc/net/tcp"))
	for line := range strings.Lines(string(table)) {
		if !strings.Contains(line, pair) {
			continue
		}
		socket := "socket:[" + strings.Fields(line)[9] + "]"
		for _, file := range must(filepath.Glob("/proc/self/fd/*")) {
			if to, err := os.Readlink(file); err == nil && to == socket {
				return true
			}
		}
	}
	return false
}

func startRemoteService(t *testing.T) *remoteService {
	t.Helper()
	s := &remoteService{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.guard.Lock()
		s.asked = append(s.asked, r.URL.Path)
		s.guard.Unlock()
		switch r.URL.Path {
		case "/missing":
			http.NotFound(w, r)
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: one\n\ndata: two\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(w, "hello")
		}
	}))
	server.Listener = &serviceListener{server.Listener, s}
	server.Start()
	t.Cleanup(server.Close)
	s.address = server.Listener.Addr().String()
	return s
}

// call returns a first call to a path, and what it will print.
func (s *remoteService) call(path string, change ...func(*reach.FirstCall)) (*reach.FirstCall, *bytes.Buffer) {
	d := &service.Definition{
		Wire: service.HTTP1, Network: "tcp", Address: s.address, Authority: s.address, Timeout: time.Minute,
		Requests: []service.Request{{Method: http.MethodGet, Path: path}},
	}
	notes := &bytes.Buffer{}
	call := &reach.FirstCall{Definition: d, Request: &d.Requests[0], Limit: time.Minute, Notes: notes}
	for _, c := range change {
		c(call)
	}
	return call, notes
}

func visitedFleet(t *testing.T) *fleet.Controller {
	t.Helper()
	own, err := hub.StartHub(within(t), hub.HubOptions{Project: "mine", Listen: "127.0.0.1:0", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	runAgent(t, own, "c1", "role=client")
	return control(t, own, "", "role=client")
}

// The first call comes from an agent's worker, once. The controller opens no connection to the service.
func TestAnAgentMakesTheFirstCall(t *testing.T) {
	s, c := startRemoteService(t), visitedFleet(t)
	alone, _ := s.call("/")
	if err := alone.Try(within(t)); err == nil {
		t.Fatal("this process can reach the service: the test would prove nothing")
	}
	s.guard.Lock()
	s.asked, s.closed = nil, 0
	s.guard.Unlock()
	call, notes := s.call("/")
	before := must(call.Definition.Encode())
	if err := c.Visit(within(t), call); err != nil {
		t.Fatal(err)
	}
	if got := notes.String(); !strings.HasPrefix(got, "first call from c1: 200 OK, 5 bytes, ") || strings.Count(got, "\n") != 1 {
		t.Errorf("printed %q", got)
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	if len(s.asked) != 1 || s.asked[0] != "/" || s.closed != 0 {
		t.Errorf("the service was asked for %q, and this process opened %d connections; want one request, and no connection", s.asked, s.closed)
	}
	if after := must(call.Definition.Encode()); after != before {
		t.Errorf("the definition was changed to %s", after)
	}
}

// A failed first call names the agent.
func TestAFailedFirstCallNamesTheAgent(t *testing.T) {
	s, c := startRemoteService(t), visitedFleet(t)
	free := must(net.Listen("tcp", "127.0.0.1:0"))
	closed := free.Addr().String()
	_ = free.Close()
	for name, one := range map[string]struct {
		path   string
		change func(*reach.FirstCall)
		want   string
	}{
		"refused":   {"/", func(f *reach.FirstCall) { f.Definition.Address = closed }, "the first call from c1: " + closed + " (h1): nothing listens there (connection refused)"},
		"missing":   {"/missing", nil, "the first call from c1: the first answer is 404 Not Found"},
		"unmet":     {"/", func(f *reach.FirstCall) { f.Definition.Expect = []string{"size > 9"} }, "the first call from c1: the first answer does not meet --expect size > 9: found size 5"},
		"forbidden": {"/", func(f *reach.FirstCall) { f.Definition.Address = "10.9.9.9:80" }, "the agent c1 refused the order: the spec has a client dial 10.9.9.9:80"},
		"moved":     {"/moved", nil, "the first call from c1: " + s.address + " (h1): the server answers 302 and redirects to http://" + s.address + "/: an agent must not change the requests: name this URL"},
	} {
		change := []func(*reach.FirstCall){one.change}
		if one.change == nil {
			change = nil
		}
		call, _ := s.call(one.path, change...)
		if err := c.Visit(within(t), call); err == nil || !strings.HasPrefix(err.Error(), one.want) {
			t.Errorf("%s: %v, want %q", name, err, one.want)
		}
		if call.Definition.Requests[0].Path != one.path {
			t.Errorf("%s: the request was changed to %q", name, call.Definition.Requests[0].Path)
		}
	}
}

// A service that is still starting gets its first call again.
func TestTheFirstCallOfAnAgentWaits(t *testing.T) {
	s, c := startRemoteService(t), visitedFleet(t)
	var notes strings.Builder
	waiting, tries := reach.Waiting{Until: time.Now().Add(time.Minute), Notes: &notes}, 0
	err := waiting.Do(within(t), func() error {
		path := "/"
		if tries++; tries == 1 {
			path = "/missing"
		}
		call, _ := s.call(path)
		return c.Visit(within(t), call)
	})
	if err != nil || tries != 2 || !strings.Contains(notes.String(), "waiting for the service, up to ") || !strings.Contains(notes.String(), ": the first call from c1: ") {
		t.Errorf("%d tries, %v, %q", tries, err, &notes)
	}
}

func TestAnAgentFindsAStreamOfEvents(t *testing.T) {
	s, c := startRemoteService(t), visitedFleet(t)
	call, notes := s.call("/events")
	if err := c.Visit(within(t), call); err != nil {
		t.Fatal(err)
	}
	d := call.Definition
	if d.Holding == nil || d.Holding.Exchange != service.Receive || d.Timeout != 0 {
		t.Errorf("the definition has the holding %+v and the timeout %v", d.Holding, d.Timeout)
	}
	for _, want := range []string{"first call from c1: the answer is a stream of events", "first message from c1: 3 bytes"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("printed %q, want %q", notes, want)
		}
	}
}

// The first request of a load with a feed is the one that the agent sends.
func TestAnAgentSendsTheFirstRequestOfAFeed(t *testing.T) {
	s, c := startRemoteService(t), visitedFleet(t)
	call, _ := s.call("/{{.N}}", func(f *reach.FirstCall) { f.Definition.Feed = &service.Feed{Requests: f.Definition.Requests} })
	first, err := reach.FirstRequest(call.Definition, call.Seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Visit(within(t), call); err != nil {
		t.Fatal(err)
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	if len(s.asked) != 1 || s.asked[0] != first.Path || first.Path != "/"+strconv.Itoa(1) {
		t.Errorf("asked for %q, want %q", s.asked, first.Path)
	}
}

// A cancelled first call ends the wait.
func TestAFirstCallCanBeCancelled(t *testing.T) {
	s, c := startRemoteService(t), visitedFleet(t)
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	call, _ := s.call("/")
	if err := c.Visit(ctx, call); err == nil {
		t.Error("a cancelled first call succeeded")
	}
}
