package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// installed returns the path of a program of the machine, which make setup installs.
func installed(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: running the programs of others takes a while")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%v: run make setup", err)
	}
	return path
}

// emptyMessage is a gRPC message without content, in a file.
func emptyMessage(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(name, make([]byte, 5), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

var headers = []string{"-H", "content-type: application/grpc", "-H", "te: trailers"}

// TestCurl makes calls as an operator would who has only curl.
func TestCurl(t *testing.T) {
	t.Parallel()
	curl := installed(t, "curl")
	url := "http://" + serve(t) + "/grpc.testing.TestService/"
	for _, c := range []struct {
		method, status, body string
		send                 []string
	}{
		{"EmptyCall", "0", "\x00\x00\x00\x00\x00", []string{"--data-binary", "@" + emptyMessage(t)}},
		{"EmptyCall", "13", "", []string{"--data-binary", "abc"}}, // no gRPC message
		// Without content: curl may fail where the response comes before it has sent all.
		{"None", "12", "", []string{"-X", "POST"}},
	} {
		t.Run(c.method+c.status, func(t *testing.T) {
			args := append([]string{"-sS", "-D", "-", "--http2-prior-knowledge", url + c.method}, append(c.send, headers...)...)
			out, err := exec.CommandContext(t.Context(), curl, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if text := string(out); !strings.HasPrefix(text, "HTTP/2 200 ") || !strings.Contains(text, "grpc-status: "+c.status+"\r\n") || !strings.Contains(text, c.body) {
				t.Errorf("it says %q", text)
			}
		})
	}
}

// TestNghttp makes several calls on one connection. nghttp sends its requests in a tree of
// priorities, which a server may ignore and must take.
func TestNghttp(t *testing.T) {
	t.Parallel()
	nghttp := installed(t, "nghttp")
	const calls = 30
	args := append([]string{"-v", "-n", "-m", fmt.Sprint(calls), "-d", emptyMessage(t), "http://" + serve(t) + "/grpc.testing.TestService/EmptyCall"}, headers...)
	out, err := exec.CommandContext(t.Context(), nghttp, args...).CombinedOutput()
	if n := bytes.Count(out, []byte("grpc-status: 0\n")); err != nil || n != calls || !bytes.Contains(out, []byte("PRIORITY")) {
		t.Errorf("%d calls of %d came back, error %v\n%s", n, calls, err, out)
	}
}

// TestH2load has many calls at once on several connections, with nghttp2's windows: its
// default, one too small for a response, and one so large that it is never renewed.
func TestH2load(t *testing.T) {
	t.Parallel()
	h2load := installed(t, "h2load")
	url := "http://" + serve(t) + "/grpc.testing.TestService/"
	large := filepath.Join(t.TempDir(), "large")
	// A SimpleRequest that asks for 100,000 bytes (field 2, a varint) behind its prefix.
	if err := os.WriteFile(large, []byte("\x00\x00\x00\x00\x04\x10\xa0\x8d\x06"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, data string
		calls              int
		args               []string
	}{
		{"empty calls", "EmptyCall", emptyMessage(t), 20000, []string{"-c", "5", "-m", "100"}},
		{"one at a time", "EmptyCall", emptyMessage(t), 1000, []string{"-c", "10", "-m", "1"}},
		{"large responses", "UnaryCall", large, 1000, []string{"-c", "4", "-m", "50"}},
		{"small windows", "UnaryCall", large, 200, []string{"-c", "2", "-m", "20", "-w", "14", "-W", "16"}},
		{"large windows", "UnaryCall", large, 1000, []string{"-c", "2", "-m", "50", "-w", "30", "-W", "30"}},
		{"small tables", "EmptyCall", emptyMessage(t), 5000, []string{"-c", "2", "-m", "50", "--header-table-size=0", "--encoder-header-table-size=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"-n", fmt.Sprint(c.calls), "-d", c.data, url + c.method}, append(c.args, headers...)...)
			out, err := exec.CommandContext(t.Context(), h2load, args...).CombinedOutput()
			want := fmt.Sprintf("requests: %d total, %[1]d started, %[1]d done, %[1]d succeeded, 0 failed, 0 errored, 0 timeout", c.calls)
			if err != nil || !bytes.Contains(out, []byte(want)) {
				t.Errorf("error %v, want %s in\n%s", err, want, out)
			}
			if c.data == large && !responded(string(out), 100000*c.calls) {
				t.Errorf("fewer bytes came than were asked for:\n%s", out)
			}
		})
	}
}

var received = regexp.MustCompile(`traffic: .*\((\d+)\) total`)

// responded says whether h2load counted n bytes.
func responded(out string, least int) bool {
	found := received.FindStringSubmatch(out)
	var n int
	if found != nil {
		_, _ = fmt.Sscan(found[1], &n)
	}
	return n >= least
}
