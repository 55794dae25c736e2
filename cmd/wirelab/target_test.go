package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A target that speaks something else is told before anything is measured.
func TestWrongTargetsAreToldBeforeTheTrials(t *testing.T) {
	grpc := serving(t, "--stack", "grpc")
	h1 := serving(t, "--stack", "h1")
	secured := serving(t, "--stack", "h1", "--tls")
	tcp := serving(t, "--stack", "tcp")
	users := serving(t, "--stack", "grpc", "--workload", "users")
	for _, test := range []struct{ flags, says string }{
		{"--stack tcp --target " + h1, "the target is a server of HTTP/1.1 without TLS: choose a stack of the target's protocol (rest, h1, rest-json)"},
		{"--stack h1 --target " + grpc, "h1 speaks HTTP/1.1, but the target is a server of HTTP/2 without TLS"},
		{"--stack grpc --target " + h1, "grpc speaks HTTP/2, but the target is a server of HTTP/1.1 without TLS"},
		{"--stack h2 --tls -k --target " + grpc, "h2:tls=on uses TLS, but the target is a server of HTTP/2 without TLS: leave TLS out"},
		{"--stack grpc --target " + secured, "grpc uses no TLS, but the target is a server of HTTP/1.1 over TLS: add --tls"},
		{"--stack grpc --tls -k --target " + secured, "grpc:tls=on speaks HTTP/2, but the target is a server of HTTP/1.1 over TLS"},
		{"--stack h1 --tls --target " + secured, "the server's certificate is not trusted: "},
		{"--stack grpc --target " + tcp, "grpc speaks HTTP/2, but the target is a server that speaks neither TLS nor HTTP"},
		{"--stack grpc --target " + users, "found a server of HTTP/2 without TLS, but the call failed: "},
	} {
		directory := filepath.Join(t.TempDir(), "out")
		said, err := exec.Command("wirelab", append([]string{"compare", "-o", directory}, strings.Fields(test.flags)...)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("%s: it ends with %v, want exit code %d", test.flags, err, exitFailed)
		}
		text := string(said)
		if !strings.HasPrefix(text, "wirelab: --target ") || !strings.Contains(text, test.says) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: want one line with %q, got:\n%s", test.flags, test.says, text)
		}
		if _, err := os.Stat(directory); err == nil {
			t.Errorf("%s: a run was begun", test.flags)
		}
	}
}
