package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
)

// A target that speaks something else is told before anything is measured.
func TestWrongTargetsAreToldBeforeTheTrials(t *testing.T) {
	grpc := serving(t, "--stack", "grpc")
	h1 := serving(t, "--stack", "h1")
	secured := serving(t, "--stack", "h1", "--tls")
	tcp := serving(t, "--stack", "tcp")
	users := serving(t, "--stack", "grpc", "--workload", "users")
	for _, test := range []struct{ flags, says string }{
		{"--stack tcp --target " + h1, "a server of HTTP/1.1 without TLS is there: measure it over a stack of that protocol (rest, h1, rest-json)"},
		{"--stack h1 --target " + grpc, "h1 speaks HTTP/1.1, and a server of HTTP/2 without TLS is there"},
		{"--stack grpc --target " + h1, "grpc speaks HTTP/2, and a server of HTTP/1.1 without TLS is there"},
		{"--stack h2 --tls -k --target " + grpc, "h2:tls=on goes over TLS, and a server of HTTP/2 without TLS is there: leave TLS out"},
		{"--stack grpc --target " + secured, "grpc goes without TLS, and a server of HTTP/1.1 over TLS is there: add --tls"},
		{"--stack grpc --tls -k --target " + secured, "grpc:tls=on speaks HTTP/2, and a server of HTTP/1.1 over TLS is there"},
		{"--stack h1 --tls --target " + secured, "its certificate is not trusted: "},
		{"--stack grpc --target " + tcp, "grpc speaks HTTP/2, and a server that speaks neither TLS nor HTTP is there"},
		{"--stack grpc --target " + users, "a server of HTTP/2 without TLS is there, and the call fails: "},
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

func TestFaultsOfTargetsSayWhatToDo(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, test := range []struct {
		variant string
		fault   lab.TargetFault
		says    string
	}{
		{"tcp", lab.TargetFault{Class: failure.Refused, Found: lab.Listening{Err: dial(syscall.ECONNREFUSED)}}, "nothing listens there"},
		{"tcp", lab.TargetFault{Found: lab.Listening{Err: dial(syscall.EHOSTUNREACH)}}, "it cannot be reached: dial tcp: no route to host: check the address"},
		{"h3", lab.TargetFault{Class: failure.HandshakeTimeout, Found: lab.Listening{Err: dial(syscall.ECONNREFUSED)}}, "h3 calls over QUIC, on UDP, and that failed: no: check that a server of HTTP/3"},
		{"h3", lab.TargetFault{Class: failure.Certificate + ": unknown authority", Found: lab.Listening{Err: dial(syscall.ECONNREFUSED)}}, "its certificate is not trusted"},
		{"tcp", lab.TargetFault{Class: failure.Deadline}, "a server that speaks neither TLS nor HTTP is there, and does not answer a call of tcp"},
		{"tcp:tls=on", lab.TargetFault{Class: failure.Deadline, Found: lab.Listening{TLS: true}}, "a server over TLS is there, and does not answer"},
		{"grpc", lab.TargetFault{Class: failure.Application, Found: lab.Listening{Protocol: "HTTP/2"}}, "name one of its own with --proto and --call"},
	} {
		variant, err := scenario.ParseVariant(test.variant)
		if err != nil {
			t.Fatal(err)
		}
		test.fault.Variant, test.fault.Err = variant, errors.New("no\nand a page")
		if got := sayFault(&test.fault); !strings.Contains(got, test.says) || strings.Contains(got, "page") {
			t.Errorf("%s: it says %q, want something of %q", test.variant, got, test.says)
		}
	}
}
