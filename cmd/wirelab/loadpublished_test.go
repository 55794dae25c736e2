package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/wire/secure"
)

// TestPublishedCommandsRun types commands that other tools' documentation has behind
// wirelab load, and pastes them behind --from. Only hosts, files and long durations are
// replaced. What a command asks for must arrive.
func TestPublishedCommandsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs some sixty loads")
	}
	world := newPublishedWorld(t)
	for _, how := range []string{"pasted", "typed"} {
		chosen, worked := 0, 0
		for _, p := range publishedCommands {
			chosen++
			if err := world.try(p, how); err != nil {
				t.Logf("%s, %s: %v", p.command, how, err)
				continue
			}
			worked++
		}
		if t.Logf("%d of %d commands work %s", worked, chosen, how); chosen < 30 || worked*30 < chosen*25 {
			t.Errorf("%d of %d commands work %s, want 25 of 30", worked, chosen, how)
		}
	}
}

// publishedCommand is one of the commands.txt in the folders of internal/foreign, by a line
// that no other has, and what it asks for.
type publishedCommand struct {
	tool, command string
	asks          string // method and path
	requests      int    // 0: for a time, or as many as wirelab's defaults make
	body          string // or a part of it
}

var publishedCommands = []publishedCommand{
	{"bombardier", "bombardier -c 200 -d 10s -l http://ya.ru", "GET /", 0, ""},
	{"bombardier", "bombardier -c 125 -n 10000000 http://localhost:8080", "GET /", 1000, ""},
	{"curl", "curl https://www.example.com/", "GET /", 0, ""},
	{"curl", "curl http://www.example.com:8000/", "GET /", 0, ""},
	{"curl", "curl -u name:passwd https://http.server.example/full/path/to/file", "GET /full/path/to/file", 0, ""},
	{"curl", "curl -r 0-99 https://www.example.com/", "GET /", 0, ""},
	{"curl", `curl -d "name=Rafael%20Sagula&phone=3320780" https://www.example.com/guest.cgi`, "POST /guest.cgi", 0, "name=Rafael%20Sagula&phone=3320780"},
	{"curl", `--data-urlencode "name=Rafael Sagula&phone=3320780"`, "POST /guest.cgi", 0, "name=Rafael%20Sagula%26phone%3D3320780"},
	{"curl", "curl -A 'Mozilla/3.0 (Win95; I)' https://www.bank.example.com/", "GET /", 0, ""},
	{"curl", `curl -b "name=Daniel" www.example.com`, "GET /", 0, ""},
	{"curl", `curl -H "X-you-and-me: yes" love.example.com`, "GET /", 0, ""},
	{"curl", "curl --upload-file uploadfile https://www.example.com/receive.cgi", "PUT /receive.cgi", 0, "what is in the file"},
	{"curl", "curl --user myname:password https://www.example.com", "GET /", 0, ""},
	{"curl", "curl --location https://www.example.com", "GET /", 0, ""},
	{"curl", "curl --cacert ca-bundle.pem https://example.com/", "GET /", 0, ""},
	{"curl", "--request PROPFIND example.com", "PROPFIND /", 0, "<xml>"},
	{"curl", "curl -X POST https://example.org/", "POST /", 0, ""},
	{"curl", `curl --json '{ "drink": "coffee" }' https://example.com`, "POST /", 0, `{ "drink": "coffee" }`},
	{"curl", `curl -d "name=curl" -d "tool=cmdline" https://example.com`, "POST /", 0, "name=curl&tool=cmdline"},
	{"curl", "curl --data-binary @filename https://example.com", "POST /", 0, "what is in the file"},
	{"curl", `curl --get -d "tool=curl" -d "age=old" https://example.com`, "GET /?tool=curl&age=old", 0, ""},
	{"fortio", "-loglevel Warning", "GET /get", 20, ""},
	{"ghz", "--connections=10", "POST /helloworld.Greeter/SayHello", 2000, "Joe"},
	{"ghz", "--debug ./logs/debug.json", "POST /helloworld.Greeter/SayHello", 50, "Joe"},
	{"ghz", "-c 10 -n 10000 --rps 200", "POST /helloworld.Greeter/SayHello", 100, ""},
	{"ghz", "--load-schedule=step", "POST /helloworld.Greeter/SayHello", 0, ""},
	{"ghz", "--concurrency-schedule=step", "POST /helloworld.Greeter/SayHello", 0, ""},
	{"ghz", "-name 'Greeter SayHello'", "POST /helloworld.Greeter/SayHello", 0, "Bob"},
	{"ghz", `-d '[{"name":"Joe"},{"name":"Bob"}]'`, "POST /helloworld.Greeter/SayHello", 0, ""},
	{"ghz", "--config ./config.json -c 20 -n 1000", "POST /helloworld.Greeter/SayHello", 1000, "Joe"},
	{"hey", "hey -n 1000 -c 100 http://example.com", "GET /", 1000, ""},
	{"hey", "hey -m POST -D /path/to/data.json", "POST /submit", 0, "what is in the file"},
	{"oha", "-c 50 -q 100 --latency-correction", "GET /", 0, ""},
	{"h2load", "h2load -n100000 -c100 -m100", "GET /", 10000, ""},
	{"wrk", "wrk -t12 -c400 -d30s", "GET /index.html", 0, ""},
}

// published finds the command in testdata.
func (p publishedCommand) published(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "foreign", p.tool, "testdata", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for record := range strings.SplitSeq(string(text), "\n\n") {
		_, rest, is := strings.Cut(record, "\n$ ")
		if !is || !strings.Contains(rest, p.command) {
			continue
		}
		command, _, _ := strings.Cut(rest, "\n=")
		found = append(found, command)
	}
	if len(found) == 0 {
		t.Fatalf("no published command of %s has %q", p.tool, p.command)
	}
	return found[0]
}

// publishedWorld are the servers that the commands are pointed to.
type publishedWorld struct {
	t                    *testing.T
	dir                  string
	plain, secured       string // addresses
	plainRPC, securedRPC string

	mu     sync.Mutex
	asked  map[string]int
	bodies map[string]string
}

func newPublishedWorld(t *testing.T) *publishedWorld {
	w := &publishedWorld{t: t, dir: t.TempDir()}
	identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
	if err != nil {
		t.Fatal(err)
	}
	plain, secured := httptest.NewUnstartedServer(w), httptest.NewUnstartedServer(w)
	secured.TLS, secured.EnableHTTP2 = identity.ServerConfig("h2", "http/1.1"), true
	plain.Start()
	secured.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secured.Close)
	w.plain, w.secured = plain.Listener.Addr().String(), secured.Listener.Addr().String()
	w.plainRPC = w.serveRPC()
	w.securedRPC = w.serveRPC(grpc.Creds(credentials.NewTLS(identity.ServerConfig("h2"))))
	for name, content := range map[string]string{
		"root.pem": string(identity.RootPEM()), "ca-bundle.pem": string(identity.RootPEM()),
		"uploadfile": "what is in the file", "filename": "what is in the file", "data.json": "what is in the file",
		"greeter.proto": `syntax = "proto3";
package helloworld;
message HelloRequest { string name = 1; }
message HelloReply { string message = 1; }
service Greeter { rpc SayHello(HelloRequest) returns (HelloReply); }
`,
		"config.json": fmt.Sprintf(`{"proto": "greeter.proto", "call": "helloworld.Greeter.SayHello", "insecure": true, "data": {"name": "Joe"}, "host": %q}`, w.plainRPC),
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// serveRPC answers every call of gRPC with an empty message.
func (w *publishedWorld) serveRPC(options ...grpc.ServerOption) string {
	listener, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var message emptypb.Empty
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		method, _ := grpc.MethodFromServerStream(stream)
		if strings.Contains(method, "reflection") {
			return status.Error(codes.Unimplemented, "no reflection")
		}
		w.note("POST "+method, message.ProtoReflect().GetUnknown())
		return stream.SendMsg(&emptypb.Empty{})
	}))...)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	w.t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// ServeHTTP answers every request with an empty page.
func (w *publishedWorld) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	w.note(r.Method+" "+r.URL.RequestURI(), body.Bytes())
}

func (w *publishedWorld) note(asked string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[asked]++
	w.bodies[asked] = string(body)
}

// What is replaced in a command.
var (
	longTimes  = regexp.MustCompile(`(-d ?|-z ?|duration=)\d+s\b`)
	webHosts   = regexp.MustCompile(`(https?)://[a-z0-9.:-]+`)
	bareHosts  = regexp.MustCompile(`(^|\s)[a-z0-9-]+(\.[a-z0-9-]+)*\.com(\s|$)`)
	protoFiles = regexp.MustCompile(`\S+\.proto\b`)
	manyCalls  = strings.NewReplacer("-n 10000000", "-n 1000", "-n100000", "-n10000", "-n 10000", "-n 100")
)

// local is a command with hosts and files of this test, and not longer than it must be.
func (w *publishedWorld) local(command string) string {
	command = strings.ReplaceAll(command, "\\\n", " ")
	command = longTimes.ReplaceAllString(manyCalls.Replace(command), "${1}100ms")
	command = webHosts.ReplaceAllStringFunc(command, func(found string) string {
		if strings.HasPrefix(found, "https") {
			return "https://" + w.secured
		}
		return "http://" + w.plain
	})
	command = bareHosts.ReplaceAllString(command, "${1}"+w.plain+"${3}")
	rpc := w.securedRPC
	if strings.Contains(command, "-insecure") {
		rpc = w.plainRPC
	}
	command = strings.ReplaceAll(command, "0.0.0.0:50051", rpc)
	command = strings.ReplaceAll(command, "/path/to/data.json", "data.json")
	return strings.TrimSpace(protoFiles.ReplaceAllString(command, "greeter.proto"))
}

// loadFigures matches the counts of one load, or the titles of the table of several.
var loadFigures = regexp.MustCompile(`(?m)^  [\d,]+ ok, [\d,]+ failed|^ +clients +ok +failed`)

// try runs a command, and says what it did not do.
func (w *publishedWorld) try(p publishedCommand, how string) error {
	w.mu.Lock()
	w.asked, w.bodies = map[string]int{}, map[string]string{}
	w.mu.Unlock()
	published := p.published(w.t)
	command := w.local(published)
	line := "wirelab load " + strings.TrimPrefix(strings.TrimPrefix(command, "./dist/"), p.tool+" ")
	if how == "pasted" {
		line = "wirelab load --from " + p.tool + " " + format.QuoteCommand([]string{command})
	}
	if p.requests == 0 && !longTimes.MatchString(published) {
		line += " --duration=100ms --warm-up=0s"
	}
	shell := exec.Command("sh", "-c", line)
	var said bytes.Buffer
	shell.Dir, shell.Stderr = w.dir, &said
	shell.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(w.dir, "root.pem"))
	printed, err := shell.Output()
	if exit, is := errors.AsType[*exec.ExitError](err); err != nil && !(is && exit.ExitCode() == exitInvalid) {
		return fmt.Errorf("%s: %w: %s", line, err, said.String())
	}
	if !loadFigures.Match(printed) {
		return fmt.Errorf("%s: it printed no figures: %s", line, said.String())
	}
	return w.check(p, line)
}

// check says what did not arrive as it should.
func (w *publishedWorld) check(p publishedCommand, line string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	arrived := w.asked[p.asks]
	switch {
	case len(w.asked) != 1 || arrived < 2:
		return fmt.Errorf("%s: the server was asked for %v, want %s", line, w.asked, p.asks)
	case p.requests > 0 && arrived < p.requests+1: // with the first call; at a rate calls go on until the window's are answered
		return fmt.Errorf("%s: %d requests arrived, want %d and the first call", line, arrived, p.requests)
	case p.requests > 0 && !strings.Contains(line, "--rps") && arrived != p.requests+1:
		return fmt.Errorf("%s: %d requests arrived, want %d and the first call", line, arrived, p.requests)
	case !strings.Contains(w.bodies[p.asks], p.body):
		return fmt.Errorf("%s: the body is %q, want %q", line, w.bodies[p.asks], p.body)
	}
	return nil
}
