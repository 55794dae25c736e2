package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/judge/analysis/matrix"
)

// A countCase is a load of a foreign server, and what the server does meanwhile.
type countCase struct {
	server, flags, target string
	// crossing means that requests may cross the end of their connection. A reset then hides whether
	// the server has read the request, so only bounds are certain.
	crossing bool
	// restart ends the server in the middle of the load, and starts it again.
	restart bool
	// bytes says which bytes the server's log has besides those of the answers' bodies.
	bytes string
}

const (
	headers       = "headers" // of answers with their bodies, and of requests; nginx does not count a body that it discards
	requestBodies = "request bodies"
)

// TestForeignServersCountTheSame compares what wirelab load reports with the logs of five servers of
// other projects.
//
// Each request that the server has read is a line of its log. So the log has as many lines as
// requests were sent: the first calls, the measured requests, those outside the window, and those
// that were sent again; without those that did not reach the server, whose failures have classes of
// their own. Each line that is no answer is a failure, or was sent again.
func TestForeignServersCountTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the servers of other projects take their time")
	}
	t.Parallel()
	const (
		h1, h2, h3 = "http://127.0.0.1:PORT", "-k --http 2 https://127.0.0.1:TLS", "-k --http 3 --sni localhost https://127.0.0.1:TLS"
		clear2     = "--http 2 http://127.0.0.1:TLS" // without TLS
		some       = "-n 1000 -c 4 "
		unary      = "grpc://127.0.0.1:PORT/shop.v1.Shop/Get"
	)
	cases := []countCase{
		{server: "nginx", flags: "-z 300ms -c 4", target: h1 + "/"},
		{server: "nginx", flags: some, target: h1 + "/cut", bytes: headers}, // a connection's 20th request
		{server: "nginx", flags: some + "-d abc", target: h1 + "/cut", bytes: headers},
		{server: "nginx", flags: some + "--retry 3 -d abc", target: h1 + "/cut"},
		{server: "nginx", flags: some + "--expect size==5", target: h1 + "/cut"},
		{server: "nginx", flags: "-z 300ms -c 4 --retry 1", target: h1 + "/cut"},
		{server: "nginx", flags: some, target: h1 + "/closing", bytes: headers},
		{server: "nginx", flags: some, target: h2 + "/closing"},
		{server: "nginx", flags: some, target: h2 + "/cut"},
		{server: "nginx", flags: "-n 20 -c 4 --rps 10", target: h1 + "/idle"},
		{server: "nginx", flags: "-n 200 -c 4 --rps 200 --arrivals poisson", target: h1 + "/soon-idle", crossing: true},
		{server: "nginx", flags: "-n 900 -c 4 --rps 400", target: h1 + "/", restart: true},
		{server: "nginx", flags: "-n 900 -c 4 --rps 400", target: h2 + "/", restart: true},

		{server: "caddy", flags: some + "--wait 30s", target: h1 + "/cut"}, // a sixteenth at random
		{server: "caddy", flags: some + "--wait 30s --retry 3", target: h1 + "/cut"},
		{server: "caddy", flags: some + "--wait 30s", target: h2 + "/cut"},
		{server: "caddy", flags: some + "--wait 30s -d abc", target: h3 + "/cut"},
		{server: "caddy", flags: "-n 900 -c 4 --rps 400", target: h2 + "/", restart: true},

		{server: "node", flags: some, target: h1 + "/cut"},
		{server: "node", flags: some + "--retry 3", target: h1 + "/cut"},
		{server: "node", flags: some + "--conn new", target: h1 + "/cut"},
		{server: "node", flags: some + "--rps 5000 -d abc --rows testdata/foreign/rows.csv", target: h1 + "/cut?{{.Row.name}}"},
		{server: "node", flags: some, target: h1 + "/closing", crossing: true},
		{server: "node", flags: some, target: clear2 + "/cut"},
		{server: "node", flags: some, target: clear2 + "/closing"},
		{server: "node", flags: "-n 900 -c 4 --rps 400", target: h1 + "/", restart: true},
		{server: "node", flags: "-n 900 -c 4 --rps 400 --retry 3", target: clear2 + "/", restart: true},

		{server: "jdk", flags: some + "-d abc", target: h1 + "/cut", bytes: requestBodies},
		{server: "jdk", flags: some + "-d abc --retry 3", target: h1 + "/cut"},
		{server: "jdk", flags: some, target: h1 + "/closing"},
		{server: "jdk", flags: "-n 900 -c 4 --rps 400", target: h1 + "/", restart: true},

		{server: "grpcio", flags: some + "--binary -d abc", target: unary, bytes: requestBodies},
		{server: "grpcio", flags: some + "--binary -d cut", target: unary}, // the code is Unavailable
		{server: "grpcio", flags: "-z 300ms -c 4 --conn per-worker --binary -d abc", target: unary},
		{server: "grpcio-aging", flags: "-z 1s -c 4 --binary -d abc", target: unary},
		{server: "grpcio", flags: "-n 900 -c 4 --rps 400 --binary -d abc", target: unary, restart: true},
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "POST"} {
		flags := some + "-m " + method
		if method == "PUT" || method == "POST" {
			flags += " -d abc"
		}
		cases = append(cases,
			countCase{server: "nginx", flags: flags, target: h1 + "/", bytes: headers},
			countCase{server: "nginx", flags: flags, target: h2 + "/"},
			countCase{server: "caddy", flags: flags, target: h1 + "/"},
			countCase{server: "caddy", flags: flags, target: h2 + "/"},
			countCase{server: "node", flags: flags, target: h1 + "/", bytes: requestBodies},
			countCase{server: "node", flags: flags, target: clear2 + "/", bytes: requestBodies},
			countCase{server: "jdk", flags: flags, target: h1 + "/", bytes: requestBodies},
		)
		if method != "HEAD" { // Caddy 2.6 sends a body then, so the first call fails
			cases = append(cases, countCase{server: "caddy", flags: flags, target: h3 + "/"})
		}
	}
	shared := &classes{dir: t.TempDir()}
	for _, c := range cases {
		name := c.server + " " + c.flags + " " + c.target
		if c.restart {
			name += " restart"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t, shared)
		})
	}
}

func (c countCase) check(t *testing.T, shared *classes) {
	server := startForeign(t, c.server, shared)
	if strings.Contains(c.target, "TLS") {
		awaitPort(t, server.tls)
	}
	load := startLoad(t, strings.Fields(strings.NewReplacer("PORT", server.port, "TLS", server.tls).Replace(c.flags+" "+c.target)))
	if c.restart {
		server.waitFor(t, 200, load)
		server.end(server.quit)
		if !server.run(t) {
			t.Fatalf("%s does not start again: %s", c.server, server.said.String())
		}
	}
	cell := load.result(t)
	if !c.restart && !c.crossing {
		// Caddy logs after it has answered, and over HTTP/3 it ends before that.
		expected := int(cell.Survival.Requests + cell.Survival.Outside + cell.Survival.Resent - cell.unreceived())
		for deadline := time.Now().Add(10 * time.Second); len(ofLoad(server.log(t))) < expected && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
	}
	server.end(server.quit)
	checkLog(t, c, server, cell)
}

// awaitPort waits until a server listens on its second port, too.
func awaitPort(t *testing.T, port string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// A runningLoad is wirelab load with --json.
type runningLoad struct {
	ended     chan struct{}
	err       error
	out, said bytes.Buffer
}

func startLoad(t *testing.T, arguments []string) *runningLoad {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, "wirelab", append([]string{"load", "--json", "--no-save"}, arguments...)...)
	l := &runningLoad{ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &l.out, &l.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the load
		defer close(l.ended)
		defer cancel()
		l.err = cmd.Wait()
	}()
	t.Cleanup(func() { cancel(); <-l.ended })
	return l
}

// result waits for the load. Counts hold on a busy machine too, where the exit code says that times
// cannot be believed.
func (l *runningLoad) result(t *testing.T) (cell loadedCell) {
	t.Helper()
	<-l.ended
	var printed struct{ Cells []loadedCell }
	if err := json.Unmarshal(l.out.Bytes(), &printed); err != nil || len(printed.Cells) != 1 {
		t.Fatalf("%v, %v: %s", err, l.err, l.said.String())
	}
	return printed.Cells[0]
}

type loadedCell struct {
	Survival matrix.Survival
	Bytes    struct {
		Calls               int64
		SentBodyBytes       int64 `json:"sent_body_bytes"`
		ReceivedBodyBytes   int64 `json:"received_body_bytes"`
		HeaderCalls         int64 `json:"header_calls"`
		SentHeaderBytes     int64 `json:"sent_header_bytes"`
		ReceivedHeaderBytes int64 `json:"received_header_bytes"`
	}
}

// unreceived returns how many measured requests the server has not read.
func (c loadedCell) unreceived() int64 {
	return c.failures("refused", "idle-closed", "stream-refused", "goaway")
}

func (c loadedCell) failures(classes ...string) (count int64) {
	for _, f := range c.Survival.Failures {
		if slices.Contains(classes, f.Class) {
			count += f.Count
		}
	}
	return count
}

// waitFor waits until the server's log has at least this many lines.
func (s *runningServer) waitFor(t *testing.T, lines int, l *runningLoad) {
	t.Helper()
	for len(s.log(t)) < lines {
		select {
		case <-l.ended:
			t.Fatalf("the load ended after %d requests: %s", len(s.log(t)), l.said.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ofLoad returns the lines after the first call. With --wait there are several, up to the first answer.
// It returns nil if the log has no answer.
func ofLoad(lines []logLine) []logLine {
	first := slices.IndexFunc(lines, func(l logLine) bool { return l.Status == 200 })
	if first < 0 {
		return nil
	}
	return lines[first+1:]
}

func checkLog(t *testing.T, c countCase, server *runningServer, cell loadedCell) {
	t.Helper()
	lines := ofLoad(server.log(t))
	if lines == nil {
		t.Fatal("the log has no answer")
	}
	var answered, cut logLine // sums
	var answers, cuts int64
	for _, line := range lines {
		sum, count := &cut, &cuts
		if line.Status == 200 {
			sum, count = &answered, &answers
		}
		*count++
		sum.Size, sum.Sent, sum.Received = sum.Size+line.Size, sum.Sent+line.Sent, sum.Received+line.Received
	}
	s := cell.Survival
	lost, bad := cell.unreceived(), cell.failures("application") // bad ones have an answer
	failed := s.Unanswered()
	told := func(problem string) {
		t.Helper()
		t.Errorf("%s: the log has %d answers and %d requests without one; wirelab %d requests, %d answered, %d failed (%d of these not received), %d sent again, %d outside: %v",
			problem, answers, cuts, s.Requests, s.Succeeded, failed, lost, s.Resent, s.Outside, s.Failures)
	}
	sent := s.Requests + s.Outside + s.Resent
	switch {
	case c.restart || c.crossing:
		// A request whose connection ended may or may not be in the log: a server can read and answer one
		// that crosses its end of the connection.
		if answers < s.Succeeded || answers+cuts > sent || s.Resent == 0 && answers > s.Succeeded+failed+s.Outside {
			told("out of bounds")
		}
		// nginx and Caddy answer what they have read before they end.
		if c.restart && server.quit != syscall.SIGKILL && answers != s.Succeeded+s.Outside {
			told("answers differ")
		}
	default:
		if answers+cuts != sent-lost {
			told("requests differ")
		}
		// Outside the window, requests without an answer are not counted apart.
		if (s.Outside == 0 || cuts == 0) && (cuts != failed-lost+s.Resent || answers != s.Succeeded+s.Outside) {
			told("answers differ")
		}
	}
	if strings.Contains(c.target, "/cut") && cuts == 0 && !strings.Contains(c.flags, "-z") {
		told("the server has cut nothing")
	}
	b := cell.Bytes
	if s.Outside > 0 || c.restart || c.crossing {
		return
	}
	isHead := strings.Contains(c.flags, "HEAD") // Caddy logs the size of what it would have sent
	if b.Calls != answers+bad || b.ReceivedBodyBytes != answered.Size && !isHead || isHead && b.ReceivedBodyBytes != 0 {
		t.Errorf("%d answers with %d bytes in the log, and %+v", answers, answered.Size, b)
	}
	if c.bytes == headers && (b.HeaderCalls != answers || b.SentHeaderBytes != answered.Received || b.ReceivedBodyBytes+b.ReceivedHeaderBytes != answered.Sent) {
		t.Errorf("%d bytes received and %d sent in the log, and %+v", answered.Received, answered.Sent, b)
	}
	if c.bytes == requestBodies && b.SentBodyBytes != answered.Received {
		t.Errorf("%d bytes of bodies in the log, and %+v", answered.Received, b)
	}
}
