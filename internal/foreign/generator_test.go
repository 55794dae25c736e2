package foreign

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/foreign/generator"
)

// recorded are the calls of the recorded runs.
var recorded = generator.Call{Protocol: generator.GRPC, AnswerBytes: 76, WireBytes: 121, Connections: 4}

// The files in testdata are what the programs printed.
func TestReadTakesWhatTheProgramsPrint(t *testing.T) {
	for _, c := range []struct{ file, want, example string }{
		{"h2load", "0 of 7629 failed, 264µs to 49.84ms, mean 3.09ms", ""},
		{"h2load-unimplemented", "644 of 644 failed, 100µs to 15.64ms, mean 1.46ms", "644 requests had an incomplete answer"},
		{"h2load-refused", "10 of 10 failed, 0s to 0s, mean 0s", "10 requests had no answer"},
		{"wrk", "0 of 36261 failed, 18µs to 7.699ms, mean 121.269µs", ""},
		{"wrk-status", "38472 of 38472 failed, 19µs to 21.977ms, mean 114.407µs", "38472 answers had a status other"},
		{"wrk-short", "16096 of 42338 failed, 18µs to 32.411ms, mean 103.892µs", "16096 answers were incomplete"},
		{"wrk-closed", "13819 of 13819 failed, 0s to 0s, mean 0s", "13819 connections broke"},
		{"ghz", "0 of 2267 failed, 850µs to 84.8ms, mean 8.96ms", ""},
		{"ghz-some-failed", "20 of 960 failed, 150µs to 10.8ms, mean 1.18ms", "failed to unmarshal"},
		{"ghz-refused", "273 of 273 failed, 0s to 0s, mean 40µs", "grpc: the client connection is closing"},
	} {
		name, _, _ := strings.Cut(c.file, "-")
		output, err := os.ReadFile(filepath.Join(name, "testdata", c.file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		client, known := Generators.Find(name)
		if !known {
			t.Fatalf("there is no client %s", name)
		}
		got, err := client.Read(string(output), recorded)
		if text := fmt.Sprintf("%d of %d failed, %v to %v, mean %v", got.Failed, got.Requests, got.Min, got.Max, got.Mean); err != nil || text != c.want || !strings.Contains(got.Example, c.example) {
			t.Errorf("%s: %s: %s, %v; want %s: %s", c.file, text, got.Example, err, c.want, c.example)
		}
	}
}

func TestAProgramThatIsNotThereSaysHowToHaveIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for name, says := range map[string]string{"h2load": "install the package nghttp2-client", "wrk": "install the package wrk", "ghz": "building the program needs the go command"} {
		client, _ := Generators.Find(name)
		if err := client.Install(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, says)
		}
	}
}

// ghz fills templates in what it sends, binary or not.
func TestGhzIsNotGivenATemplate(t *testing.T) {
	client, _ := Generators.Find("ghz")
	_, err := client.Prepare(generator.Call{Protocol: generator.GRPC, Path: "/a.Service/Method", Message: []byte("a{{b")}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "template") {
		t.Errorf("a request with {{ is let through: %v", err)
	}
}

// Whatever a program prints, as many calls fail as were made, or fewer.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("*/testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if output, err := os.ReadFile(file); err == nil { // folders hold what fuzzing found
			f.Add(string(output))
		}
	}
	f.Fuzz(func(t *testing.T, output string) {
		for _, client := range Generators {
			counts, err := client.Read(output, recorded)
			if err == nil && (counts.Failed < 0 || counts.Failed > counts.Requests) {
				t.Errorf("%s: %d of %d failed", client.Name, counts.Failed, counts.Requests)
			}
		}
	})
}

// What wrk reads as Lua says what the call is, whatever is in its header and body.
func TestWrkIsToldTheCallInLua(t *testing.T) {
	client, _ := Generators.Find("wrk")
	folder := t.TempDir()
	call := generator.Call{
		Protocol: generator.HTTP1, Method: "POST", Address: "127.0.0.1:1", Path: "/echo", Message: []byte("\x00\n\""),
		Header: []generator.Field{{Name: "A", Value: "\"\\\n"}}, Callers: 6, Connections: 6, Threads: 4, Duration: 1500 * time.Millisecond,
	}
	arguments, err := client.Prepare(call, folder)
	if err != nil {
		t.Fatal(err)
	}
	// Three threads, since wrk would drop two of six connections with four.
	if got, want := strings.Join(arguments, " "), "-d 2s -t 3 -c 6 -s call.lua http://127.0.0.1:1/echo"; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	script, err := os.ReadFile(filepath.Join(folder, "call.lua"))
	if err != nil || !strings.Contains(string(script), `wrk.headers["\065"] = "\034\092\010"`) {
		t.Errorf("%v: %s", err, script)
	}
	body, err := os.ReadFile(filepath.Join(folder, generator.RequestFile))
	if err != nil || string(body) != string(call.Message) {
		t.Errorf("%v: the body is %q", err, body)
	}
	call.Protocol = generator.GRPC
	if _, err := client.Prepare(call, folder); err == nil || !strings.Contains(err.Error(), "does not speak gRPC") {
		t.Errorf("wrk for gRPC: %v", err)
	}
}

// h2load gets what each protocol needs.
func TestH2loadIsToldTheProtocol(t *testing.T) {
	client, _ := Generators.Find("h2load")
	call := generator.Call{Address: "a:1", Path: "/p", Message: []byte("hi"), Header: []generator.Field{{Name: "X-A", Value: "b"}}, Callers: 50, Connections: 5, Threads: 1, Duration: time.Second}
	for protocol, want := range map[generator.Protocol][2]string{
		generator.HTTP1: {"-D 1000ms -t 1 -c 5 -m 10 --h1 -H x-a: b -d request http://a:1/p", "hi"},
		generator.HTTP2: {"-D 1000ms -t 1 -c 5 -m 10 -H x-a: b -d request http://a:1/p", "hi"},
		generator.GRPC:  {"-D 1000ms -t 1 -c 5 -m 10 -H content-type: application/grpc -H te: trailers -H x-a: b -d request http://a:1/p", "\x00\x00\x00\x00\x02hi"},
	} {
		folder := t.TempDir()
		call.Protocol = protocol
		arguments, err := client.Prepare(call, folder)
		body, readErr := os.ReadFile(filepath.Join(folder, generator.RequestFile))
		if got := strings.Join(arguments, " "); err != nil || readErr != nil || got != want[0] || string(body) != want[1] {
			t.Errorf("%s: %s with %q, %v, %v; want %q", protocol, got, body, err, readErr, want)
		}
	}
}
