package creditrpc

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"google.golang.org/grpc/credentials"
)

// pythonClient is a command of testdata/calls.py, whose client was written from
// docs/creditrpc.md. Nothing but Python is needed.
func pythonClient(t *testing.T, target, what string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: starting Python takes a while")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("the second client needs python3: %v", err)
	}
	for _, file := range []string{"calls.py", "client.py"} { // go test keeps no result of older ones
		if _, err := os.ReadFile(filepath.Join("testdata", file)); err != nil {
			t.Fatal(err)
		}
	}
	return exec.CommandContext(t.Context(), python, "-B", filepath.Join("testdata", "calls.py"), target, what)
}

func expectOutput(t *testing.T, c *exec.Cmd, want string) {
	t.Helper()
	var problems strings.Builder
	c.Stderr = &problems
	got, err := c.Output()
	if err != nil || string(got) != want {
		t.Errorf("%v: %v\n%s\ngot\n%s\nwant\n%s", c.Args[2:], err, problems.String(), got, want)
	}
}

// everything holds the client's output after calls of every kind.
const everything = `many: 20 answers
metadata: b'x' 0 [('header', b'a\x00b'), ('header', b'c')] [('trailer-bin', b'a\x00b'), ('trailer-bin', b'c')]
status: 5 nothing here [5] [b'nothing here'] [b'type.googleapis.com/grpc.testing.Payload'] [b'why']
deadline: 4
unknown: 12
too long: 8
no message: 13
malformed: 13
two messages: 13 creditrpc: more than one message in a unary request
cancelled: b'after'
up: [3000000] None 0
other: b'by' True
down: True None 0
both: None 0
ping: answered
`

// TestThePageSuffices has the client make calls of every kind, with windows that are as small as
// may be and with the usual ones.
func TestThePageSuffices(t *testing.T) {
	tight := []ServerOption{Window(0), StreamWindow(0), MaxCalls(3)}
	t.Run("tcp", func(t *testing.T) {
		t.Parallel()
		expectOutput(t, pythonClient(t, serve(t, NewServer(), new(service)), "well"), everything)
	})
	t.Run("tcp, little credit", func(t *testing.T) {
		t.Parallel()
		expectOutput(t, pythonClient(t, serve(t, NewServer(tight...), new(service)), "well"), everything)
	})
	t.Run("unix", func(t *testing.T) {
		t.Parallel()
		lis, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
		if err != nil {
			t.Fatal(err)
		}
		s := NewServer(tight...)
		testgrpc.RegisterTestServiceServer(s, new(service))
		go func() { _ = s.Serve(lis) }() // ends with Stop
		defer s.Stop()
		expectOutput(t, pythonClient(t, "unix:"+lis.Addr().String(), "well"), everything)
	})
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		web := httptest.NewTLSServer(nil) // for its certificate
		defer web.Close()
		creds := credentials.NewTLS(&tls.Config{Certificates: web.TLS.Certificates, NextProtos: []string{ALPN}, MinVersion: tls.VersionTLS13})
		expectOutput(t, pythonClient(t, "tls:"+serve(t, NewServer(Creds(creds)), new(service)), "well"), everything)
	})
}

// TestPythonHearsGoodbye stops a server gracefully while a call of the client is open.
func TestPythonHearsGoodbye(t *testing.T) {
	s := NewServer()
	c := pythonClient(t, serve(t, s, new(service)), "leave")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	var got []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if got = append(got, lines.Text()); len(got) == 1 {
			go func() {
				s.GracefulStop()
				close(stopped)
			}()
		}
	}
	want := "open: b'1'\nlate: None not begun\ngoodbye: 1 b'2' None 0\nclosed: the server closed the connection"
	if err := c.Wait(); err != nil || strings.Join(got, "\n") != want {
		t.Errorf("%v, and\n%s\nwant\n%s", err, strings.Join(got, "\n"), want)
	}
	<-stopped
}

// TestWhoSendsWithoutCreditIsThrownOut has the client send without each kind of credit.
func TestWhoSendsWithoutCreditIsThrownOut(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  []ServerOption
		calls int64 // that the service may see
	}{
		{"without-calls", []ServerOption{MaxCalls(4)}, 4},
		{"without-bytes", []ServerOption{Window(0), StreamWindow(1 << 20)}, 0},
		{"without-stream", []ServerOption{StreamWindow(0)}, 0},
	} {
		impl := new(service)
		expectOutput(t, pythonClient(t, serve(t, NewServer(c.opts...), impl), c.name), "closed: the server closed the connection\n")
		if n := impl.calls.Load(); n > c.calls {
			t.Errorf("%s: the service saw %d calls, at most %d may begin", c.name, n, c.calls)
		}
	}
}
