package foreign

import (
	"os"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/foreign/flags"
)

func readWritten(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(pathOf(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestGhzReport(t *testing.T) {
	for name, want := range map[string]string{
		"ghz.json": `-c 4 --conn shared -d '{
   "data": "aGk=",
   "id": 1
  }' --timeout 20s -n 1200 grpc://127.0.0.1:39411/wirelab.echo.v1.EchoService/Echo`,
	} {
		text := readWritten(t, name)
		got, told, err := Commands.TranslateText("ghz", text, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		words, err := flags.Split(want, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, words) {
			t.Errorf("%s: %q\nwant %q, told %q", name, got, words, told)
		}
		if guessed := Commands.Guess(text); guessed != "ghz" {
			t.Errorf("%s is guessed to be of %q", name, guessed)
		}
	}
	for _, name := range []string{"ghz-2.json", "ghz-open.json", "ghz-paced.json"} {
		if got, _, err := Commands.TranslateText("ghz", readWritten(t, name), nil); err != nil || len(got) < 8 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// The configuration of https://ghz.sh/docs/example_config.
const ghzConfiguration = `{
    "proto": "/path/to/greeter.proto",
    "call": "helloworld.Greeter.SayHello",
    "total": 2000,
    "concurrency": 50,
    "data": {
        "name": "Joe"
    },
    "metadata": {
        "foo": "bar",
        "trace_id": "{{.RequestNumber}}",
        "timestamp": "{{.TimestampUnix}}"
    },
    "import-paths": [
        "/path/to/protos"
    ],
    "max-duration": "10s",
    "host": "0.0.0.0:50051"
}`

func TestGhzConfiguration(t *testing.T) {
	got, _, err := Commands.TranslateText("ghz", ghzConfiguration, nil)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(got, " ")
	for _, want := range []string{
		"--call helloworld.Greeter/SayHello", "-c 50", "-n 2000", "-z 10s", "-H foo: bar", "-H timestamp: {{.TimestampUnix}}",
		"--import-path /path/to/protos", "--proto /path/to/greeter.proto", `"name": "Joe"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%s lacks %s", line, want)
		}
	}
	if got[len(got)-1] != "0.0.0.0:50051" {
		t.Errorf("the target is %s", got[len(got)-1])
	}
	for text, want := range map[string]string{
		`{"call":"a.b.c"}`:                              "names no host",
		`{"host":"a:1","call":7,"x":`:                   "not JSON",
		`{"host":"a:1","nonsense":1}`:                   "nonsense in the file: wirelab does not know this flag",
		`{"host":"a:1"}`:                                "names no method",
		`{"host":"a:1","call":"a.b.c","total":{"a":1}}`: "an object as its value",
	} {
		if _, _, err := Commands.TranslateText("ghz", text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

func TestK6(t *testing.T) {
	for _, name := range []string{"k6.json", "k6-handle.json", "k6-legacy.json"} {
		text := readWritten(t, name)
		_, _, err := Commands.TranslateText("k6", text, nil)
		if err == nil || !strings.Contains(err.Error(), "write wirelab load URL -c 4 -z 3.") {
			t.Errorf("%s: %v", name, err)
		}
		if guessed := Commands.Guess(text); guessed != "k6" {
			t.Errorf("%s is guessed to be of %q", name, guessed)
		}
	}
	const tagged = `{"root_group":{},"metrics":{"vus_max":{"max":8},"http_reqs":{"count":1000,"rate":100},"http_req_duration{url:http://127.0.0.1:8080/a}":{"max":3}}}`
	got, told, err := Commands.TranslateText("k6", tagged, nil)
	if err != nil || strings.Join(got, " ") != "-c 8 -z 10s http://127.0.0.1:8080/a" || len(told) == 0 {
		t.Errorf("%q %q %v", got, told, err)
	}
	for text, want := range map[string]string{
		`import http from "k6/http"`: "a script is not run", `{}`: "no metrics",
		`{"metrics":{"a{url:http://a/}":{},"a{url:http://b/}":{}}}`: "covers 2 URLs",
	} {
		if _, _, err := Commands.TranslateText("k6", text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

func TestFromNamesTheTool(t *testing.T) {
	for _, command := range []string{"hey -n 10 http://a/", "-n 10 http://a/", "/usr/bin/hey -n 10 http://a/", "$ hey -n 10 http://a/"} {
		got, _, err := Commands.TranslateText("hey", command, nil)
		if err != nil || strings.Join(got, " ") != "-n 10 -c 50 --conn per-worker http://a/" {
			t.Errorf("%s: %q, %v", command, got, err)
		}
	}
	for command, want := range map[string]string{
		"oha -n 10 http://a/": "write --from oha", "": "the command is missing", "# x": "only a comment",
		"-n x http://a/": "hey: -n: want a whole number", "-nope http://a/": "does not know this flag", "-n": "the value of the flag is missing",
		"http://a/ http://b/": "more than one URL",
	} {
		if _, _, err := Commands.TranslateText("hey", command, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", command, err, want)
		}
	}
	if _, _, err := Commands.TranslateText("siege", "siege http://a/", nil); err == nil || !strings.Contains(err.Error(), "want one of ghz") {
		t.Error(err)
	}
}

func TestGuess(t *testing.T) {
	for text, want := range map[string]string{
		"curl http://a/": "curl", "./dist/ghz --call a.b.c d": "ghz", "$ wrk -c 1 http://a/": "wrk", "h2load.exe a": "h2load",
		"http://a/": "", "": "", "{": "", "siege a": "", ghzConfiguration: "ghz",
	} {
		if got := Commands.Guess(text); got != want {
			t.Errorf("%.30s: %q, want %q", text, got, want)
		}
	}
}
