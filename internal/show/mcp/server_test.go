package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// address takes a URL apart, as far as these tests need it. cmd/wirelab tests the real one.
func address(target string) (host, port string, err error) {
	_, rest, _ := strings.Cut(target, "://")
	host, port, found := strings.Cut(rest, ":")
	if !found {
		return "", "", errors.New("names no port")
	}
	return host, port, nil
}

func options(t *testing.T) Options {
	t.Helper()
	return Options{
		Runs: t.TempDir(), AllowLoad: true, Address: address,
		Variants: func(list string) (count int, needsBuild bool, err error) {
			return strings.Count(list, ",") + 1, strings.Contains(list, "server="), nil
		},
	}
}

func serverOf(t *testing.T, o Options) *server {
	t.Helper()
	at, err := openFolder(o.Runs)
	if err != nil {
		t.Fatal(err)
	}
	return &server{Options: o, folder: at, ended: t.Context()}
}

// makeRun makes the files of a run that tools look for.
func makeRun(t *testing.T, directory string) {
	t.Helper()
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest.json", "records.jsonl"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyRunsInTheFolderAreRead(t *testing.T) {
	o, outside := options(t), t.TempDir()
	makeRun(t, filepath.Join(o.Runs, "inside"))
	makeRun(t, outside)
	makeRun(t, filepath.Join(o.Runs, "mixed"))
	if err := os.Remove(filepath.Join(o.Runs, "mixed", "records.jsonl")); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": outside, "mixed/records.jsonl": filepath.Join(outside, "records.jsonl"), "loop": "inside"} {
		if err := os.Symlink(to, filepath.Join(o.Runs, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := serverOf(t, o)
	for _, name := range []string{"inside", "./inside/", "loop", filepath.Join(string(s.folder), "inside")} {
		if path, err := s.folder.run(name); err != nil || path != filepath.Join(string(s.folder), "inside") {
			t.Errorf("%s: %s, %v", name, path, err)
		}
	}
	for name, want := range map[string]string{
		"": "name its directory", "..": "is outside", "../..": "is outside", "/etc": "is outside", "link": "is outside",
		"mixed": "is outside", "nothing": "does not exist", "../nothing": "is outside", "/nothing": "is outside",
		filepath.Join("inside", "..", "..", filepath.Base(outside)): "is outside", outside: "is outside", "--json": "does not exist",
	} {
		if _, err := s.folder.run(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: found %v, want an error with %q", name, err, want)
		}
	}
	if err := s.folder.mayWrite(); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(outside, filepath.Join(o.Runs, "wirelab-runs")); err != nil {
		t.Fatal(err)
	}
	if err := s.folder.mayWrite(); err == nil || !strings.Contains(err.Error(), "wirelab-runs, the folder for new runs, is outside") {
		t.Errorf("new runs would be outside: found %v", err)
	}
}

// FuzzRunsStayInTheFolder wants that no name of a run leads out of the folder.
func FuzzRunsStayInTheFolder(f *testing.F) {
	for _, name := range []string{"", ".", "inside", "../x", "inside/../../x", "/etc", "link", "link/../inside", "a\x00b", "-o", strings.Repeat("../", 40)} {
		f.Add(name)
	}
	base := f.TempDir()
	if err := os.MkdirAll(filepath.Join(base, "runs", "inside"), 0o755); err != nil {
		f.Fatal(err)
	}
	for _, in := range []string{base, filepath.Join(base, "runs", "inside")} {
		for _, file := range []string{"manifest.json", "records.jsonl"} {
			if err := os.WriteFile(filepath.Join(in, file), nil, 0o600); err != nil {
				f.Fatal(err)
			}
		}
	}
	if err := os.Symlink(base, filepath.Join(base, "runs", "link")); err != nil {
		f.Fatal(err)
	}
	at, err := openFolder(filepath.Join(base, "runs"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if path, err := at.run(name); err == nil && path != filepath.Join(string(at), "inside") {
			t.Errorf("%q leads to %s", name, path)
		}
	})
}

func TestOnlyAllowedTargetsAreLoaded(t *testing.T) {
	o := options(t)
	o.Targets = []string{"staging.test", "10.0.0.7:8080"}
	s := serverOf(t, o)
	for target, allowed := range map[string]bool{
		"http://127.0.0.1:80": true, "http://127.9.9.9:80": true, "http://localhost:80": true, "http://LOCALHOST:80": true,
		"http://staging.test:1": true, "grpc://Staging.TEST:2": true, "http://10.0.0.7:8080": true,
		"http://10.0.0.7:8081": false, "http://10.0.0.8:8080": false, "http://x.staging.test:1": false, "http://localhost.evil.test:1": false,
		"http://127.0.0.1.evil.test:80": false, "127.0.0.1:80": false, "steps.yaml": false, "unix:/run/x": false, "--from=x": false, "": false,
		"http://0.0.0.0:80": false, "http://127.0.0.1": false,
	} {
		if err := s.mayLoad(target); (err == nil) != allowed {
			t.Errorf("%s: found %v, want it allowed: %v", target, err, allowed)
		}
	}
	if err := s.mayLoad("http://other.test:80"); err == nil || !strings.Contains(err.Error(), "can allow it with --allow-target other.test:80") {
		t.Errorf("found %v, want to read what would allow it", err)
	}
}

func TestMeasurementsAreBounded(t *testing.T) {
	s := serverOf(t, options(t))
	many := slices.Repeat([]string{"64"}, 100)
	const at = "http://127.0.0.1:80"
	for want, asked := range map[string]request{
		"budget_seconds: found 601: want 1 to 600": compareRequest{Budget: 601},
		"budget_seconds: found -1: want 1 to 600":  loadRequest{Target: at, Budget: -1},
		"found 300 cells (3 stacks × 100 sizes × 1 numbers of clients): want at most 12 in 1m0s: ask for fewer": compareRequest{Sizes: many},
		"(1 stacks × 100 sizes × 100 numbers of clients): want at most 120 in 10m0s":                            compareRequest{Stacks: []string{"tcp"}, Sizes: []string{strings.Join(many, ",")}, Clients: slices.Repeat([]int{1}, 100), Budget: 600},
		"want at most 4 in 1s":                              compareRequest{Clients: []int{1, 2}, Budget: 1},
		"clients: found 1001: want 1 to 1000":               compareRequest{Clients: []int{1001}},
		"clients: found 2000: want 1 to 1000":               loadRequest{Target: at, Clients: 2000},
		"requests: found 1000001: want 1 to 1000000":        loadRequest{Target: at, Requests: 1_000_001},
		"body: found 1048577 bytes: want at most 1048576":   loadRequest{Target: at, Body: strings.Repeat("x", maxBody+1)},
		`headers: found "@secrets": want NAME: VALUE`:       loadRequest{Target: at, Headers: []string{"@secrets"}},
		"stacks: this server builds no programs: leave out": compareRequest{Stacks: []string{"grpc:server=rust"}},
	} {
		if _, err := asked.invocation(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
	what, err := loadRequest{Target: at, Body: "@/etc/passwd", Method: "--output=x", FailIf: []string{"p99>1ms"}}.invocation(s)
	want := []string{"load", "--json", "--yes-i-may", "--concurrency=10", "--requests=10000", "--method=--output=x", "--data=-", "--fail-if=p99>1ms", "--", at}
	if err != nil || !slices.Equal(what.arguments, want) || what.input != "@/etc/passwd" || what.limit != defaultBudget*time.Second {
		t.Errorf("found %v %q %v, %v", what.arguments, what.input, what.limit, err)
	}
}

// A connection is a client's, with the pipe by which it sends.
type connection struct {
	*sdk.ClientSession
	sends *os.File
}

// session connects a client to a server whose tools start this shell script in place of wirelab.
func session(t *testing.T, script string, o Options, onProgress func(*sdk.ProgressNotificationParams)) *connection {
	t.Helper()
	o.Program = filepath.Join(t.TempDir(), "wirelab")
	if err := os.WriteFile(o.Program, []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	fromClient, toServer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromServer, toClient, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- Serve(context.Background(), o, fromClient, toClient)
		toClient.Close()
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { onProgress(r.Params) },
	})
	connected, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		connected.Close()
		if err := <-served; err != nil {
			t.Errorf("the server ends with %v", err)
		}
	})
	return &connection{connected, toServer}
}

func call(t *testing.T, on *connection, name string, arguments any) (*sdk.CallToolResult, string) {
	t.Helper()
	params := &sdk.CallToolParams{Name: name, Arguments: arguments}
	params.SetProgressToken("token")
	result, err := on.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return result, result.Content[0].(*sdk.TextContent).Text
}

const emptyListing = `{"runs": []}`

func TestAToolHandsOnWhatTheCommandPrints(t *testing.T) {
	on := session(t, `case "$1 $2 $3" in
"list --runs=. --json") echo '`+emptyListing+`';;
*) echo "wirelab: $*: want something else" >&2; exit 2;;
esac`, options(t), func(*sdk.ProgressNotificationParams) {})
	result, text := call(t, on, "runs", struct{}{})
	if structured, err := json.Marshal(result.StructuredContent); err != nil || string(structured) != `{"runs":[]}` || text != `{"runs":[]}` || result.IsError {
		t.Errorf("found %s and %q, %v", structured, text, err)
	}
	if result, text = call(t, on, "doctor", struct{}{}); !result.IsError || text != "wirelab: doctor --json: want something else" {
		t.Errorf("a command that fails: found %q, error %v", text, result.IsError)
	}
	if result, text = call(t, on, "diff", map[string]any{"befor": "x", "after": "y"}); !result.IsError || !strings.Contains(text, "befor") {
		t.Errorf("a wrong argument: found %q, error %v", text, result.IsError)
	}
}

// A command that prints what it has measured when it is interrupted, as a load does.
const interruptible = `trap 'echo "{\"runs\": []}"; echo ended > ended; exit 130' INT
echo "10 of 99" >&2
: > started
while :; do sleep 0.05; done`

func TestACallSendsProgress(t *testing.T) {
	o := options(t)
	o.progressEvery = 10 * time.Millisecond
	var once sync.Once
	ctx, cancel := context.WithCancel(t.Context())
	on := session(t, interruptible, o, func(p *sdk.ProgressNotificationParams) {
		if p.Message == "10 of 99" && p.Total == 600 && p.Progress > 0 && p.ProgressToken == "token" {
			once.Do(cancel)
		}
	})
	params := &sdk.CallToolParams{Name: "load", Arguments: map[string]any{"target": "http://127.0.0.1:80", "budget_seconds": 600}}
	params.SetProgressToken("token")
	if _, err := on.CallTool(ctx, params); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v, want that progress came and cancelled the call", err)
	}
}

func TestACallEndsWithItsTime(t *testing.T) {
	on := session(t, interruptible, options(t), func(*sdk.ProgressNotificationParams) {})
	result, err := on.CallTool(t.Context(), &sdk.CallToolParams{Name: "load", Arguments: map[string]any{"target": "http://127.0.0.1:80", "budget_seconds": 1}})
	if err == nil && !result.IsError { // it printed no report
		t.Errorf("found the result %v", result.StructuredContent)
	}
	if err != nil && !strings.Contains(err.Error(), "validating tool output") {
		t.Errorf("output that is no report: found %v", err)
	}
}

func TestACancelledCallEndsTheCommand(t *testing.T) {
	o := options(t)
	on := session(t, interruptible, o, func(*sdk.ProgressNotificationParams) {})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := on.CallTool(ctx, &sdk.CallToolParams{Name: "load", Arguments: map[string]any{"target": "http://127.0.0.1:80"}})
		failed <- err
	}()
	waitFor(t, filepath.Join(o.Runs, "started"))
	if result, text := call(t, on, "compare", struct{}{}); !result.IsError || !strings.Contains(text, "another measurement is running") {
		t.Errorf("a second measurement: found %q", text)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call: found %v", err)
	}
	waitFor(t, filepath.Join(o.Runs, "ended"))
}

func TestTheCommandEndsWithTheClient(t *testing.T) {
	o := options(t)
	on := session(t, interruptible, o, func(*sdk.ProgressNotificationParams) {})
	go on.CallTool(t.Context(), &sdk.CallToolParams{Name: "compare", Arguments: struct{}{}}) //nolint:errcheck // it is cut off
	waitFor(t, filepath.Join(o.Runs, "started"))
	on.sends.Close() // the client's own Close would wait for the call
	waitFor(t, filepath.Join(o.Runs, "ended"))
}

// waitFor waits until a file exists.
func waitFor(t *testing.T, path string) {
	t.Helper()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("there is no", path)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Clients put the list of tools into a model's context, so its length is bounded.
func TestTheListOfToolsIsShort(t *testing.T) {
	const most = 25_000 // bytes
	on := session(t, "exit 1", options(t), func(*sdk.ProgressNotificationParams) {})
	list, err := on.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil || len(text) > most || len(list.Tools) != 7 {
		t.Errorf("%d tools take %d bytes, %v: want 7 in at most %d", len(list.Tools), len(text), err, most)
	}
	for _, member := range []string{`"answer":{"description":"a few short lines","type":"array"}`, `"fleet":{"description":"agents`, `"type":"object"`} {
		if !strings.Contains(string(text), member) {
			t.Errorf("the outlines lack %s", member)
		}
	}
}

func TestToolsWithoutLoadChangeNothing(t *testing.T) {
	o := options(t)
	o.AllowLoad = false
	on := session(t, "exit 1", o, func(*sdk.ProgressNotificationParams) {})
	for offered, err := range on.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if offered.Name == "compare" || offered.Name == "load" || !offered.Annotations.ReadOnlyHint {
			t.Errorf("%s is offered, read-only: %v", offered.Name, offered.Annotations.ReadOnlyHint)
		}
		if text, err := json.Marshal(offered.OutputSchema); err != nil || !strings.Contains(string(text), "https://wirelab.dev/schema/") {
			t.Errorf("%s has no schema of its result", offered.Name)
		}
	}
	o.Targets = []string{"staging.test"}
	if err := Serve(t.Context(), o, nil, nil); err == nil || !strings.Contains(err.Error(), "add --allow-load") {
		t.Errorf("a target without --allow-load: found %v", err)
	}
	o.AllowLoad, o.Targets = true, []string{"http://staging.test/"}
	if err := Serve(t.Context(), o, nil, nil); err == nil || !strings.Contains(err.Error(), `--allow-target: found "http://staging.test/"`) {
		t.Errorf("a URL as target: found %v", err)
	}
	o.Targets, o.Runs = nil, "nowhere"
	if err := Serve(t.Context(), o, nil, nil); err == nil || !strings.Contains(err.Error(), "--runs: ") {
		t.Errorf("a missing folder: found %v", err)
	}
}
