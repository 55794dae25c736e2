package yardstick

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// answerBytes is how long an answer of the recorded runs is.
const answerBytes = 76

// The files in testdata are what the programs printed.
func TestReadTakesWhatTheProgramsPrint(t *testing.T) {
	for _, c := range []struct{ file, want, example string }{
		{"h2load", "0 of 7629 failed, 264µs to 49.84ms, mean 3.09ms", ""},
		{"h2load-unimplemented", "644 of 644 failed, 100µs to 15.64ms, mean 1.46ms", "644 an answer without the message"},
		{"h2load-refused", "10 of 10 failed, 0s to 0s, mean 0s", "10 requests had no answer"},
		{"ghz", "0 of 2267 failed, 850µs to 84.8ms, mean 8.96ms", ""},
		{"ghz-some-failed", "20 of 960 failed, 150µs to 10.8ms, mean 1.18ms", "failed to unmarshal"},
		{"ghz-refused", "273 of 273 failed, 0s to 0s, mean 40µs", "grpc: the client connection is closing"},
	} {
		output, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(c.file, "-")
		client, known := FindClient(name)
		if !known {
			t.Fatalf("there is no client %s", name)
		}
		got, err := client.Read(string(output), Call{AnswerBytes: answerBytes})
		if text := fmt.Sprintf("%d of %d failed, %v to %v, mean %v", got.Failed, got.Requests, got.Min, got.Max, got.Mean); err != nil || text != c.want || !strings.Contains(got.Example, c.example) {
			t.Errorf("%s: %s: %s, %v; want %s: %s", c.file, text, got.Example, err, c.want, c.example)
		}
	}
}

func TestAProgramThatIsNotThereSaysHowToHaveIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for name, says := range map[string]string{"h2load": "in the package nghttp2-client", "ghz": "no go command to build it with"} {
		client, _ := FindClient(name)
		if err := client.Install(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, says)
		}
	}
}

// ghz fills templates in what it sends, binary or not.
func TestGhzIsNotGivenATemplate(t *testing.T) {
	client, _ := FindClient("ghz")
	_, err := client.Prepare(Call{Method: "/a.Service/Method", Request: wrapperspb.Bytes([]byte("a{{b"))}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "template") {
		t.Errorf("a request with {{ is let through: %v", err)
	}
}

// Whatever a program prints, as many calls fail as were made, or fewer.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if output, err := os.ReadFile(file); err == nil { // folders hold what fuzzing found
			f.Add(string(output))
		}
	}
	f.Fuzz(func(t *testing.T, output string) {
		for _, client := range Clients {
			counts, err := client.Read(output, Call{AnswerBytes: answerBytes})
			if err == nil && (counts.Failed < 0 || counts.Failed > counts.Requests) {
				t.Errorf("%s: %d of %d failed", client.Name, counts.Failed, counts.Requests)
			}
		}
	})
}
