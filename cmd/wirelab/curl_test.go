package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// curler runs curl against `wirelab serve` over TLS.
type curler struct {
	t       *testing.T
	program string
	flags   []string // version, and whom to trust
	base    string   // https://HOST:PORT
}

// curlOver starts a server of the stack and returns a curl that speaks this
// version of HTTP to it.
func curlOver(t *testing.T, stack, version string) curler {
	t.Helper()
	program, err := exec.LookPath("curl")
	if err != nil {
		t.Skipf("curl is not on this machine: %v", err)
	}
	features, err := exec.Command(program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if name := map[string]string{"--http2": "HTTP2", "--http3-only": "HTTP3"}[version]; !strings.Contains(string(features), name) {
		release, _, _ := strings.Cut(string(features), "\n")
		t.Skipf("the curl on this machine has no %s: %s", name, release)
	}
	root := filepath.Join(t.TempDir(), "root.pem")
	address := serving(t, "--stack", stack, "--tls", "--ca", root)
	return curler{t, program, []string{version, "--noproxy", "*", "--cacert", root}, "https://" + address}
}

// ask returns the body, and the version and status that curl saw.
func (c curler) ask(path string, args ...string) (body []byte, saw string) {
	c.t.Helper()
	all := append(append([]string{"-sS", "--max-time", "20", "--write-out", "\n%{http_version} %{http_code}"}, c.flags...), args...)
	out, err := exec.Command(c.program, append(all, c.base+path)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			c.t.Fatalf("curl: %v: %s", err, exit.Stderr)
		}
		c.t.Fatal(err)
	}
	end := bytes.LastIndexByte(out, '\n')
	return out[:end], string(out[end+1:])
}

func TestCurlOverTLS(t *testing.T) {
	sent, encoded := payload(t)
	file := filepath.Join(t.TempDir(), "payload.bin")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString(sent.Data)
	inJSON := `{"id":7,"data":"` + data + `"}`
	for stack, version := range map[string][2]string{
		"h1": {"--http1.1", "1.1"}, "h2": {"--http2", "2"}, "h3": {"--http3-only", "3"},
	} {
		t.Run(stack, func(t *testing.T) {
			curl := curlOver(t, stack, version[0])
			body, saw := curl.ask("/echo", "--data-binary", "@"+file, "-H", "Content-Type: application/x-protobuf")
			if saw != version[1]+" 200" {
				t.Errorf("curl saw %s", saw)
			}
			wantEcho(t, sent, body)

			body, saw = curl.ask("/echo", "--data", inJSON, "-H", "Content-Type: application/json")
			var answer struct{ Data string }
			if err := json.Unmarshal(body, &answer); err != nil || saw != version[1]+" 200" || answer.Data != data {
				t.Errorf("JSON: curl saw %s, %q, %v", saw, body, err)
			}

			body, saw = curl.ask("/")
			if saw != version[1]+" 200" || !strings.Contains(string(body), "POST /echo") || !strings.Contains(string(body), curl.base+"/echo") {
				t.Errorf("a page: curl saw %s, %q", saw, body)
			}
		})
	}
}
